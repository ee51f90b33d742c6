// The open dialog, if any. At most one is open.

import { type Desk, show } from "../actions";
import type { Wish } from "../canvas/canvas";
import { type Chosen, RunDialog } from "../run/dialog";
import type { Run } from "../run/trial";
import { fileName } from "../view";
import type { State } from "../state";
import { Beginning, isDot, NewUnit, NoFolders } from "./beginning";
import { ChangesDialog, Conflict } from "./changes";
import { type Choice, Choices, Keys } from "./dialog";
import { FolderDialog } from "./folders";
import { ModelDialog } from "./models";
import { ServeDialog } from "./serve";
import { UnitSearch } from "./unit_search";

export type DialogName = "" | "keys" | "changes" | "run" | "unit" | "model" | "folder" | "serve";

interface Props {
  desk: Desk;
  state: State;
  dialog: DialogName;
  model: string;
  wish: Wish | null;
  choices: { title: string; of: Choice[] } | null;
  inputs: string[];
  samples: Record<string, Chosen>;
  run: Run;
  onSamples: (samples: Record<string, Chosen>) => void;
  onAdd: (unit: string, wish: Wish) => void;
  onClose: () => void;
  onWish: (wish: null) => void;
  onChoices: (choices: null) => void;
  onBegun: () => void;
}

export function Dialogs(props: Props) {
  const { desk, state, dialog, onClose } = props;
  const { work } = desk;
  const isFilling = dialog === "model" || dialog === "folder" || dialog === "unit"; // a form that a conflict would reset
  if (state.conflict && !isFilling) return <Conflict state={state} work={work} />;
  if (props.choices) return <Choices title={props.choices.title} choices={props.choices.of} onClose={() => props.onChoices(null)} />;
  if (props.wish) return <UnitSearch wish={props.wish} catalog={state.catalog} onAdd={props.onAdd} onClose={() => props.onWish(null)} />;
  if (isDot(state.file) && (dialog === "unit" || dialog === "folder" || dialog === "model")) return <NoFolders file={state.file} onClose={onClose} />;
  switch (dialog) {
    case "keys":
      return <Keys onClose={onClose} />;
    case "changes":
      return <ChangesDialog work={work} onClose={onClose} />;
    case "serve":
      return <ServeDialog state={state} work={work} onClose={onClose} />;
    case "folder":
      return <FolderDialog work={work} onClose={onClose} />;
    case "model":
      return (
        <ModelDialog
          work={work}
          path={props.model}
          onAdded={(names) => {
            onClose();
            show(desk, names, `added ${names.join(", ")}`);
          }}
          onClose={onClose}
        />
      );
    case "unit":
      return (
        <NewUnit
          kinds={state.catalog?.kinds ?? []}
          onMake={(name, kind) => {
            onClose();
            void work.bring("unit", { name, kind });
          }}
          onClose={onClose}
        />
      );
    case "run":
      return (
        <RunDialog
          inputs={props.inputs}
          chosen={props.samples}
          onChange={props.onSamples}
          onRun={async (samples, isRepeated) => {
            if (!(await props.run.start(samples, isRepeated))) return work.state.problem;
            onClose();
            return "";
          }}
          onClose={onClose}
        />
      );
    case "":
      if (!state.starters.length) return null;
      return (
        <Beginning
          file={fileName(state.file)}
          starters={state.starters}
          onTake={(name) => {
            void work.begin(name).then(props.onBegun);
          }}
          onClose={() => work.skipBeginning()}
        />
      );
  }
}
