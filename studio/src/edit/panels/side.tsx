// The pane on the right: the settings of the selected node, the data of the selected edge, or the whole graph.

import { boxOf, type Desk, NOWHERE } from "../actions";
import type { Wish } from "../canvas/canvas";
import type { Run } from "../run/trial";
import { EdgePanel, PortValues } from "../run/values";
import type { View } from "../view";
import type { State } from "../state";
import { About } from "./about";
import { Inspector } from "./inspector";

interface Props {
  desk: Desk;
  state: State;
  view: View;
  run: Run;
  inputs: string[];
  focus: number;
  onWish: (wish: Wish) => void;
  onRemove: () => void;
}

export function Side(props: Props) {
  const { desk, state, view, run } = props;
  const { chosen, chosenWire, picture, work } = desk;
  const one = chosen.length === 1 ? boxOf(picture, chosen[0]!) : undefined;
  const goTo = (name: string) => {
    desk.select([name]);
    desk.focus(name);
  };
  if (one) {
    return (
      <Inspector
        key={one.name}
        box={one}
        view={view}
        catalog={state.catalog}
        focus={props.focus}
        onEdit={(...operations) => {
          const renamed = operations.find((each) => each.do === "rename");
          void work.edit(...operations).then((added) => added && renamed?.do === "rename" && desk.select([renamed.name]));
        }}
        onSelect={goTo}
        onWire={(wire) => desk.select([], wire)}
        values={run.trial.state === "none" ? null : <PortValues box={one} wires={picture?.wires ?? []} inputs={props.inputs} run={run} />}
        onRemove={props.onRemove}
        onLeave={() => desk.focus(one.name)}
      />
    );
  }
  if (chosenWire) {
    return <EdgePanel key={`${chosenWire.source} ${chosenWire.output}`} wire={chosenWire} run={run} onSelect={goTo} onInsert={(on) => props.onWish({ ...NOWHERE, on, wire: chosenWire })} onRemove={props.onRemove} onLeave={() => desk.focus(chosenWire.source)} />;
  }
  return <About picture={picture} notes={view.notes} many={chosen.length} args={view.args} given={state.args} onGive={(name, value) => work.give(name, value)} />;
}
