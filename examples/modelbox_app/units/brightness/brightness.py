import _flowunit as modelbox
import numpy as np


class Brightness(modelbox.FlowUnit):
    def __init__(self):
        super().__init__()

    def open(self, config):
        self.brightness = config.get_float("brightness", 1.0)
        return modelbox.Status.StatusCode.STATUS_SUCCESS

    def process(self, data_context):
        out_data = data_context.output("out_image")
        for buffer in data_context.input("in_image"):
            image = np.array(buffer.as_object(), copy=False).reshape(buffer.get("shape"))
            image = np.clip(image * self.brightness, 0, 255).astype(np.uint8)
            made = self.create_buffer(image)
            made.copy_meta(buffer)
            out_data.push_back(made)
        return modelbox.Status.StatusCode.STATUS_SUCCESS
