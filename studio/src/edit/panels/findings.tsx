// Errors of the graph, and failures of its run.

import type { Trouble } from "../../live/frame";
import type { Finding } from "../view";

export function Findings(props: { findings: Finding[]; troubles: Trouble[]; problem: string; onSeek: (finding: Finding) => void }) {
  const { findings, troubles, problem } = props;
  const isWell = !troubles.length && !problem;
  return (
    <section class="findings" aria-label="Errors">
      <h2 aria-live="polite" data-count={findings.length}>
        {findings.length ? `${findings.length} ${findings.length === 1 ? "error" : "errors"}` : isWell ? "No errors" : "The graph itself has no errors"}
      </h2>
      <ul>
        {findings.map((finding) => (
          <li key={`${finding.line} ${finding.node} ${finding.message}`}>
            <button type="button" onClick={() => props.onSeek(finding)} data-finding={finding.node ?? ""}>
              {finding.line !== null && <span class="line">line {finding.line}</span>} {finding.node && <strong>{finding.node}</strong>} {finding.message}
            </button>
          </li>
        ))}
      </ul>
      {!isWell && (
        <>
          <h2>Errors in the run</h2>
          {problem && <p class="problem">{problem}</p>}
          <ul role="log" aria-label="Errors in the run">
            {troubles.map((trouble) => (
              <li key={trouble.node} data-trouble={trouble.node}>
                <strong>{trouble.node}</strong>: {trouble.count.toLocaleString("en")} failed; last error: <span class="problem">{trouble.last}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}
