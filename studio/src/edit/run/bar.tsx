// The state of the run in a line.

import { rateOf } from "../../words";
import { describe, type Run } from "./trial";

export function RunBar(props: { run: Run; onResults: () => void }) {
  const { trial, live } = props.run;
  if (trial.state === "none") return null;
  const { frame } = live;
  const isRunning = trial.state === "running";
  const isOver = trial.state === "done" || trial.state === "stopped";
  const failed = frame?.troubles.reduce((sum, trouble) => sum + trouble.count, 0) ?? 0;
  const isOfNode = frame?.nodes.some((node) => node.node === frame.verdict.node); // otherwise the verdict is about the samples
  return (
    <p class={trial.state === "failed" ? "runbar problem" : "runbar"} role="status" data-run={trial.state}>
      {describe(trial)}
      {frame && isRunning && ` · ${rateOf(frame.rate)} ${frame.unit}`}
      {failed > trial.failed && <span class="problem"> · {failed.toLocaleString("en")} failed in nodes</span>}
      {frame && isRunning && isOfNode && <span class={`verdict ${frame.verdict.level}`}> · {frame.verdict.text}</span>}
      {isOver && (
        <>
          {" "}
          <button type="button" class="small" title="r" onClick={props.onResults}>
            Show results
          </button>
          <span class="quiet"> or select an edge to see its data</span>
        </>
      )}
    </p>
  );
}
