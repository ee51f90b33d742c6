import { render } from "preact";
import { Editor } from "./edit/editor";

render(<Editor />, document.getElementById("app")!);
