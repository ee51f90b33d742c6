import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Graph } from "./live/graph";
import { Header } from "./live/header";
import { Key, Models, Unready } from "./live/models";
import { BEGIN, listen, type State } from "./live/stream";
import { Recording } from "./live/recording";
import { Table } from "./live/table";
import { Troubles } from "./live/troubles";

const KEPT = "modelflow-api-key";
const STATES = [
  ["busy", "a call of the unit runs"],
  ["blocked", "the next queue is full"],
  ["order", "earlier rows go first"],
  ["starved", "the node has no rows"],
] as const;

function Dashboard() {
  const [state, setState] = useState<State>(BEGIN);
  const [model, setModel] = useState(chosen);
  const [key, setKey] = useState(() => sessionStorage.getItem(KEPT) ?? "");
  useEffect(() => {
    const look = () => setModel(chosen());
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, []);
  useEffect(() => {
    setState((before) => ({ ...BEGIN, models: before.models }));
    const path = model ? `events/${encodeURIComponent(model)}` : "events";
    return listen(path + location.search, key, setState);
  }, [model, key]);
  const { picture, frame } = state;
  useEffect(() => {
    document.title = `${frame?.name ?? picture?.name ?? "flow"} · modelflow`;
  }, [frame?.name, picture?.name]);
  const unlock = (given: string) => {
    sessionStorage.setItem(KEPT, given);
    setKey(given);
  };
  return (
    <>
      <Header state={state} />
      <main class={state.link.is}>
        <Models names={state.models.served} shown={model} />
        <Unready reasons={state.models.unready} />
        {state.link.is === "locked" && <Key given={unlock} />}
        {picture && (
          <div class="scrolls" role="region" aria-label="Graph" tabindex={0}>
            <Graph picture={picture} frame={frame} />
          </div>
        )}
        {picture && <Legend />}
        {frame && <Troubles troubles={frame.troubles} />}
        {frame && <Table frame={frame} />}
        <Recording state={state} />
      </main>
    </>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="Colours of the bars">
      {STATES.map(([name, meaning]) => (
        <li key={name}>
          <span class={`swatch ${name}`} />
          {name}: {meaning}
        </li>
      ))}
    </ul>
  );
}

function chosen(): string {
  return decodeURIComponent(location.hash.slice(1));
}

render(<Dashboard />, document.getElementById("app")!);
