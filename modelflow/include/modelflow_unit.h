/* A flow unit in a dynamic library: what modelflow calls, without the interpreter lock.
 *
 * `modelflow new unit NAME --kind c++` writes a working one with its build. Each worker thread has
 * an instance of its own, so that nothing here needs a lock. Calls come in this order:
 *
 *   modelflow_abi        once, when the library is loaded
 *   modelflow_open       once an instance
 *   modelflow_describe   for each new combination of types and shapes of the inputs
 *   modelflow_process    as often as there are batches
 *   modelflow_close      once, if modelflow_open gave an instance
 *
 * No function may let an exception out.
 */
#ifndef MODELFLOW_UNIT_H
#define MODELFLOW_UNIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODELFLOW_ABI 1
#define MODELFLOW_MAX_NDIM 8
#define MODELFLOW_EXPORT __attribute__((visibility("default")))

typedef enum {
    MODELFLOW_UINT8 = 0,
    MODELFLOW_INT8 = 1,
    MODELFLOW_UINT16 = 2,
    MODELFLOW_INT16 = 3,
    MODELFLOW_UINT32 = 4,
    MODELFLOW_INT32 = 5,
    MODELFLOW_UINT64 = 6,
    MODELFLOW_INT64 = 7,
    MODELFLOW_FLOAT32 = 8,
    MODELFLOW_FLOAT64 = 9,
    MODELFLOW_BOOL = 10
} modelflow_dtype;

/* An array in C order. bytes and text (UTF-8) are uint8 arrays of one axis. */
typedef struct {
    void *data;
    int32_t dtype; /* a modelflow_dtype */
    int32_t ndim;
    int64_t shape[MODELFLOW_MAX_NDIM];
} modelflow_array;

/* A message ended by a zero byte; empty: no error. */
typedef struct {
    char message[512];
} modelflow_error;

/* Returns MODELFLOW_ABI: the form of this file that the library was built with. */
MODELFLOW_EXPORT int32_t modelflow_abi(void);

/* Makes an instance from its options, a JSON object; NULL and a message where they do not fit. */
MODELFLOW_EXPORT void *modelflow_open(const char *options, modelflow_error *error);

/* Says dtype, ndim and shape of each output for such inputs (their data is NULL here), or sets a
 * message where it does not take them. */
MODELFLOW_EXPORT void modelflow_describe(
    void *unit, const modelflow_array *inputs, modelflow_array *outputs, modelflow_error *error);

/* Works on a batch. inputs[row * number_of_inputs + port] may only be read; outputs[row *
 * number_of_outputs + port] are to be filled. A message in errors[row] fails that row alone. */
MODELFLOW_EXPORT void modelflow_process(
    void *unit, int64_t rows, const modelflow_array *inputs, modelflow_array *outputs,
    modelflow_error *errors);

/* Ends an instance. */
MODELFLOW_EXPORT void modelflow_close(void *unit);

#ifdef __cplusplus
}
#endif

#endif
