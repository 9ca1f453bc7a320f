def test_a(spark):
    import pyarrow as pa

    def f(bs):
        for b in bs:
            yield b

    assert spark.range(10).mapInArrow(f, "id long").count() == 10
    assert spark.range(10).toPandas().shape == (10, 1)
