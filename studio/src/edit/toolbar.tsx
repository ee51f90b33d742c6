// The buttons of the editor.

interface Props {
  isActive: boolean; // whether a run is active
  isStopping: boolean;
  isChanged: boolean;
  canUndo: boolean;
  canRedo: boolean;
  onUndo: () => void;
  onRedo: () => void;
  onTidy: () => void;
  onFit: () => void;
  onFind: () => void;
  onChanges: () => void;
  onSave: () => void;
  onRun: () => void;
  onServe: () => void;
  onKeys: () => void;
}

export function Toolbar(props: Props) {
  return (
    <div role="toolbar" aria-label="Edit">
      <Button name="Undo" keys="Control+Z" isOff={!props.canUndo} onPress={props.onUndo} />
      <Button name="Redo" keys="Control+Y" isOff={!props.canRedo} onPress={props.onRedo} />
      <span class="gap" />
      <Button name="Tidy" hint="arrange all nodes, and remove their positions from the file" onPress={props.onTidy} />
      <Button name="Fit" keys="0" onPress={props.onFit} />
      <Button name="Find" keys="Control+F" onPress={props.onFind} />
      <span class="gap" />
      <Button name="Show changes" onPress={props.onChanges} />
      <Button name="Save" keys="Control+S" isOff={!props.isChanged} isFirst={props.isChanged} onPress={props.onSave} />
      <span class="gap" />
      <Button name={props.isActive ? "Stop" : "Run"} keys="Control+Enter" isOff={props.isStopping} isFirst onPress={props.onRun} />
      <Button name="Serve…" onPress={props.onServe} />
      <span class="gap" />
      <Button name="Show keys" keys="?" onPress={props.onKeys} />
    </div>
  );
}

function Button(props: { name: string; keys?: string; hint?: string; isOff?: boolean; isFirst?: boolean; onPress: () => void }) {
  return (
    <button type="button" class={props.isFirst ? "primary" : ""} disabled={props.isOff} aria-keyshortcuts={props.keys} title={props.hint ?? props.keys} onClick={props.onPress}>
      {props.name}
    </button>
  );
}
