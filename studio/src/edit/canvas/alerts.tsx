// The errors of ports, each at its port.

import type { Box, Finding } from "../view";
import { locatePort } from "./viewport";

export function Alerts(props: { findings: Finding[]; place: (name: string) => Box | undefined }) {
  const shown = props.findings.filter((one) => one.port !== null && one.node !== null);
  // The texts of a node's ports are below each other under the node.
  const before = (finding: Finding, number: number) => shown.slice(0, number).filter((one) => one.node === finding.node).length;
  return (
    <>
      {shown.map((finding, number) => {
        const box = props.place(finding.node!);
        if (!box) return null;
        const isInput = box.inputs.some((one) => one.name === finding.port && (one.wrong || !one.used));
        const at = locatePort(box, finding.port!, isInput ? "inputs" : "outputs");
        return (
          <g key={finding.message} role="alert" data-alert={`${finding.node}:${finding.port}`} transform={`translate(${at.x} ${at.y})`}>
            <circle class="wrong" r={9} />
            <text class="alert" x={box.x - at.x} y={box.y + box.height + 16 - at.y + 15 * before(finding, number)}>
              {finding.node}:{finding.port}, line {finding.line}
            </text>
            <title>{finding.message}</title>
          </g>
        );
      })}
    </>
  );
}
