// The flow unit @NAME@. See modelflow_unit.h for the order and the rules of the calls.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "modelflow_unit.h"

namespace {

struct Unit {
    float share;
};

void fail(modelflow_error *error, const char *message) {
    std::snprintf(error->message, sizeof error->message, "%s", message);
}

// The number of an option. The options are a JSON object. With more options, use a JSON library.
double option(const char *options, const char *name, double otherwise) {
    char key[64];
    std::snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = std::strstr(options, key);
    return found == nullptr ? otherwise : std::strtod(found + std::strlen(key), nullptr);
}

int64_t size(const modelflow_array &array) {
    int64_t count = 1;
    for (int axis = 0; axis < array.ndim; ++axis) count *= array.shape[axis];
    return count;
}

}  // namespace

int32_t modelflow_abi(void) { return MODELFLOW_ABI; }

void *modelflow_open(const char *options, modelflow_error *error) {
    const double share = option(options, "share", 0.25);
    if (!(share > 0 && share <= 1)) {
        std::snprintf(error->message, sizeof error->message,
                      "option 'share': got %g; expected more than 0, and at most 1", share);
        return nullptr;
    }
    return new (std::nothrow) Unit{static_cast<float>(share)};
}

void modelflow_describe(
    void *, const modelflow_array *inputs, modelflow_array *outputs, modelflow_error *error) {
    if (inputs[0].dtype != MODELFLOW_FLOAT32) return fail(error, "in_data: expected float32");
    outputs[0] = inputs[0];
}

void modelflow_process(
    void *unit, int64_t rows, const modelflow_array *inputs, modelflow_array *outputs,
    modelflow_error *) {
    const float share = static_cast<const Unit *>(unit)->share;
    for (int64_t row = 0; row < rows; ++row) {
        const float *in = static_cast<const float *>(inputs[row].data);
        float *out = static_cast<float *>(outputs[row].data);
        const int64_t count = size(inputs[row]);
        float value = count ? in[0] : 0;
        for (int64_t at = 0; at < count; ++at) {
            value += share * (in[at] - value);
            out[at] = value;
        }
    }
}

void modelflow_close(void *unit) { delete static_cast<Unit *>(unit); }
