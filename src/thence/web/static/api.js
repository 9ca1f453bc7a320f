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
  const response = await fetch(address(name, params)).catch(() => {
    throw new Error("The server does not answer.");
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || `the server answers ${response.status}`);
  return answer;
}

// Only while the page is looked at: a browser has six connections to a server for all its tabs. What
// was missed meanwhile is told first. heard: whether the server is there; the browser asks again by
// itself until it is.
export function news(callback, heard) {
  let source = null;
  const listen = () => {
    if (document.hidden) source?.close();
    else if (!source || source.readyState === EventSource.CLOSED) {
      source = new EventSource("api/news");
      source.onopen = () => heard(true);
      source.onerror = () => heard(false);
      source.onmessage = (event) => callback(JSON.parse(event.data));
    }
  };
  document.addEventListener("visibilitychange", listen);
  listen();
}
