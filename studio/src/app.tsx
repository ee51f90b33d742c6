import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Charts } from "./live/charts";
import { Graph } from "./live/graph";
import { Header } from "./live/header";
import { Legend } from "./live/legend";
import { keepKey, Key, keptKey, Models, Unready } from "./live/models";
import { NodePanel } from "./live/node";
import { BEGIN, listen, type State } from "./live/stream";
import { Recording } from "./live/recording";
import { Series } from "./live/series";
import { Table } from "./live/table";
import { Troubles } from "./live/troubles";

const NARROW = matchMedia("(max-width: 700px)");
// A drawing that is less wide leaves room for the charts beside it.
const SLIM = 640;

interface Shown {
  state: State;
  series: Series;
}

function Dashboard() {
  const [{ state, series }, setShown] = useState<Shown>(() => ({ state: BEGIN, series: new Series() }));
  const [model, setModel] = useState(readModel);
  const [key, setKey] = useState(keptKey);
  const [opened, setOpened] = useState("");
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  const opener = useRef<Element | null>(null);
  useEffect(() => {
    const look = () => setModel(readModel());
    const fit = () => setNarrow(NARROW.matches);
    addEventListener("hashchange", look);
    NARROW.addEventListener("change", fit);
    return () => {
      removeEventListener("hashchange", look);
      NARROW.removeEventListener("change", fit);
    };
  }, []);
  useEffect(() => {
    setShown(({ state }) => ({ state: { ...BEGIN, models: state.models }, series: new Series() }));
    const path = model ? `events/${encodeURIComponent(model)}` : "events";
    return listen(path + location.search, key, (change) =>
      setShown((before) => {
        const state = change(before.state);
        if (state.past !== before.state.past) before.series.begin(state.past);
        if (state.frame && state.frame !== before.state.frame) before.series.add(state.frame);
        return { ...before, state };
      }),
    );
  }, [model, key]);
  const { picture, frame } = state;
  useEffect(() => {
    document.title = `${frame?.name ?? picture?.name ?? "flow"} · modelflow`;
  }, [frame?.name, picture?.name]);
  const unlock = (given: string) => {
    keepKey(given);
    setKey(given);
  };
  const open = (node: string) => {
    if (node === opened) return close();
    opener.current = document.activeElement;
    setOpened(node);
  };
  const close = () => {
    setOpened("");
    if (opener.current instanceof HTMLElement || opener.current instanceof SVGElement) opener.current.focus();
  };
  const day = (time: number) => series.day(time);
  const node = frame?.nodes.find((one) => one.node === opened);
  const drawing = picture && (isNarrow ? picture.down : picture);
  const isSlim = drawing && drawing.width < SLIM && drawing.height > drawing.width;
  return (
    <>
      <Header state={state} />
      <main class={state.link.is} onKeyDown={(event) => event.key === "Escape" && opened && close()}>
        <Models names={state.models.served} shown={model} />
        <Unready reasons={state.models.unready} />
        {state.link.is === "locked" && <Key given={unlock} />}
        <div class={`parts ${isSlim ? "slim" : ""} ${node ? "opened" : ""}`}>
          {drawing && (
            <div class="scrolls drawing" role="region" aria-label="Graph" tabindex={0}>
              <Graph name={picture.name} drawing={drawing} frame={frame} opened={opened} open={open} />
            </div>
          )}
          {drawing && <Legend />}
          {node && (
            <NodePanel
              node={node}
              plan={picture?.plan[opened] ?? {}}
              trouble={frame?.troubles.find((one) => one.node === opened)}
              day={day}
              close={close}
            />
          )}
          {frame && <Charts series={series} frame={frame} changes={state.changes} />}
          {frame && <Troubles troubles={frame.troubles} day={day} open={open} />}
          {frame && <Table frame={frame} open={open} />}
          <Recording state={state} />
        </div>
      </main>
    </>
  );
}

function readModel(): string {
  const name = location.hash.slice(1);
  try {
    return decodeURIComponent(name);
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return name; // an address that no page makes
  }
}

render(<Dashboard />, document.getElementById("app")!);
