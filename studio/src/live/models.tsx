// The choice of a server's model, the models that are not ready, and the API key.

import { useState } from "preact/hooks";

export function Models(props: { names: string[]; shown: string }) {
  if (props.names.length < 2) return null;
  const shown = props.shown || props.names[0];
  return (
    <nav aria-label="Models">
      {props.names.map((name) => (
        <a key={name} href={`#${encodeURIComponent(name)}`} aria-current={name === shown ? "page" : undefined}>
          {name}
        </a>
      ))}
    </nav>
  );
}

export function Unready(props: { reasons: Record<string, string> }) {
  const reasons = Object.entries(props.reasons);
  if (!reasons.length) return null;
  return (
    <section aria-label="Not ready">
      <h2>Not ready</h2>
      <div role="status">
        <ul class="troubles">
          {reasons.map(([name, reason]) => (
            <li key={name} data-unready={name}>
              <strong>{name}</strong>: {reason}
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

export function Key(props: { given: (key: string) => void }) {
  const [key, setKey] = useState("");
  return (
    <form
      class="key"
      onSubmit={(event) => {
        event.preventDefault();
        props.given(key);
      }}
    >
      <label>
        API key of the server:{" "}
        <input
          type="password"
          autocomplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Show figures</button>
      <span class="quiet">a key with access to the group "metrics"</span>
    </form>
  );
}

const KEPT = "modelflow-api-key";

/** Returns the key of an earlier page, or "". */
export function keptKey(): string {
  try {
    return sessionStorage.getItem(KEPT) ?? "";
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    return ""; // no storage: the key lasts as long as the page
  }
}

export function keepKey(key: string): void {
  try {
    sessionStorage.setItem(KEPT, key);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
  }
}
