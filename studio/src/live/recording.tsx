// Starts and stops a recording, downloads its trace, and shows recorded requests as waterfalls.

import { useEffect, useState } from "preact/hooks";
import type { State } from "./stream";
import { type Followed, Waterfalls } from "./waterfall";

export function Recording(props: { state: State }) {
  const { recording, link, frame } = props.state;
  const order = frame?.nodes.map((node) => node.node) ?? [];
  const [followed, setFollowed] = useState<Followed[]>([]);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!recording?.has) return;
    let isWanted = true;
    fetch(`requests${location.search}`)
      .then((answer) => (answer.ok ? answer.json() : []))
      .then((found: Followed[]) => isWanted && setFollowed(found))
      .catch(() => undefined); // the flow has ended, which the header shows
    return () => {
      isWanted = false;
    };
  }, [recording?.version, recording?.has]);
  if (!recording) return null;
  const press = async () => {
    try {
      const answer = await fetch(`${recording.on ? "halt" : "record"}${location.search}`, { method: "POST" });
      setProblem(answer.ok ? "" : `the server answered ${answer.status}`);
    } catch {
      setProblem("the server does not answer");
    }
  };
  return (
    <section aria-label="Recording">
      <p class="recording" data-recording={recording.on ? "on" : recording.has ? "ended" : "none"}>
        {link.is !== "ended" && (
          <button type="button" disabled={link.is !== "live"} onClick={() => void press()}>
            {recording.on ? "Stop recording" : "Record"}
          </button>
        )}
        {link.is === "ended" && recording.has && <span class="quiet">the flow has ended, and its trace is lost; its requests are below</span>}
        {recording.on && link.is !== "ended" && <span role="status">{recording.slices.toLocaleString("en")} calls and waits; the recording stops after five minutes</span>}
        {recording.has && !recording.on && link.is !== "ended" && (
          <a href={`trace.json.gz${location.search}`} download="trace.json.gz">
            Download the trace for ui.perfetto.dev ({recording.slices.toLocaleString("en")} calls and waits)
          </a>
        )}
        {(problem || recording.problem) && (
          <span class="bad" role="alert">
            {problem || recording.problem}
          </span>
        )}
      </p>
      {recording.has && !followed.length && <p class="quiet">No recorded request has ended yet. Every 100th request is recorded, and the two slowest of each second.</p>}
      {followed.length > 0 && <Waterfalls requests={followed} order={order} />}
    </section>
  );
}
