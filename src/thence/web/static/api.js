// Questions to the server. An answer that is a refusal throws its sentence.

export function query(params) {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "" || value === false) continue;
    for (const one of Array.isArray(value) ? value : [value]) made.append(name, one === true ? "1" : one);
  }
  return made.toString();
}

export function address(name, params = {}) {
  return `api/${name}?${query(params)}`;
}

export async function ask(name, params = {}) {
  const response = await fetch(address(name, params));
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || `the server answers ${response.status}`);
  return answer;
}

export function news(callback) {
  const source = new EventSource("api/news");
  source.onmessage = (event) => callback(JSON.parse(event.data));
  return source;
}
