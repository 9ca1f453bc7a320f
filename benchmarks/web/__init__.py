"""How fluid the space-time page is."""
