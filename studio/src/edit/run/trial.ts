// Starts, follows and stops a run of the graph.

import { useEffect, useRef, useState } from "preact/hooks";
import { BEGIN, listen, type State as Live, type Trial } from "../../live/stream";
import { timeOf } from "../../words";
import type { Sample } from "../state";
import type { Work } from "../work";

export interface Run {
  trial: Trial;
  live: Live;
  isActive: boolean;
  isOwn: boolean; // whether this page started the run
  isOld: boolean; // whether the run is over, and the graph has changed since
  start: (samples: Record<string, Sample[]>, isRepeated: boolean) => Promise<boolean>;
  stop: () => void;
}

const NONE: Trial = { state: "none", problem: "", seconds: 0, repeated: false, results: 0, failed: 0 };
const ACTIVE = new Set(["opening", "running", "stopping"]);

/** The run of this page, or the run (`opened`) that was active when the page was opened. */
export function useRun(work: Work, opened: Trial | null): Run {
  const [live, setLive] = useState<Live>(BEGIN);
  const [begun, setBegun] = useState<Trial>(NONE);
  const isOwn = useRef(false);
  const ran = useRef<string | null>(null); // the text of this page's run
  const leave = useRef<(() => void) | null>(null);
  const follow = () => {
    leave.current?.();
    setLive(BEGIN);
    leave.current = listen(`events${location.search}`, "", setLive);
  };
  useEffect(() => () => leave.current?.(), []);
  useEffect(() => {
    if (opened && opened.state !== "none") {
      setBegun(opened);
      follow();
    }
  }, [opened]);
  useEffect(() => {
    if (live.link.is === "ended") leave.current?.(); // no event follows
  }, [live.link.is]);
  const trial = live.trial ?? begun;
  const isEndless = ACTIVE.has(trial.state) && trial.repeated;
  useEffect(() => {
    if (!isEndless) return;
    const end = () => void navigator.sendBeacon(`api/stop${location.search}`, "{}"); // no page would show the run any more
    addEventListener("pagehide", end);
    return () => removeEventListener("pagehide", end);
  }, [isEndless]);
  return {
    trial,
    live,
    isActive: ACTIVE.has(trial.state),
    isOwn: isOwn.current,
    isOld: ran.current !== null && ran.current !== work.state.text && !ACTIVE.has(trial.state),
    start: async (samples, isRepeated) => {
      const found = await work.run(samples, isRepeated);
      if (!found) return false;
      isOwn.current = true;
      ran.current = work.state.text;
      setBegun(found);
      follow();
      return true;
    },
    stop: () => void work.stop(),
  };
}

/** Describes the state of a run, for example "done: 2 results in 18 ms". */
export function describe(trial: Trial): string {
  switch (trial.state) {
    case "opening":
      return "opening the units";
    case "running":
      return "running";
    case "stopping":
      return "stopping";
    case "done":
      return `done: ${count(trial)} in ${timeOf(trial.seconds)}`;
    case "stopped":
      return `stopped: ${count(trial)}`;
    case "failed":
      return `failed: ${trial.problem}`;
    case "none":
      return "";
  }
}

function count(trial: Trial): string {
  const results = `${trial.results.toLocaleString("en")} ${trial.results === 1 ? "result" : "results"}`;
  return trial.failed ? `${results}, ${trial.failed.toLocaleString("en")} failed` : results;
}
