// The errors of ports, each at its port.

import type { Box, Finding } from "../view";
import { locatePort } from "./viewport";

export function Alerts(props: { findings: Finding[]; place: (name: string) => Box | undefined }) {
  const shown = props.findings.filter((one) => one.port !== null && one.node !== null);
  return (
    <>
      {shown.map((finding) => {
        const box = props.place(finding.node!);
        if (!box) return null;
        const isInput = box.inputs.some((one) => one.name === finding.port && (one.wrong || !one.used));
        const at = locatePort(box, finding.port!, isInput ? "inputs" : "outputs");
        return (
          <g key={finding.message} role="alert" data-alert={`${finding.node}:${finding.port}`} transform={`translate(${at.x} ${at.y})`}>
            <circle class="wrong" r={9} />
            <text class="alert" x={isInput ? -12 : 12} y={-8} text-anchor={isInput ? "end" : "start"}>
              {finding.node}:{finding.port}, line {finding.line}
            </text>
            <title>{finding.message}</title>
          </g>
        );
      })}
    </>
  );
}
