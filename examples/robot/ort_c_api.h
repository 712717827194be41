/* The part of ONNX Runtime's C interface that robot.c uses, so that it can be built without its headers.
 *
 * The interface is a table of functions. New ones are only ever added at its end, so the place of each stays the same:
 * `skipped` stands for functions that are not used here. With the headers of a release of ONNX Runtime, build with
 * -DOFFICIAL_HEADER and -I<its include folder>, and this file is not used.
 */
#ifndef ORT_C_API_H
#define ORT_C_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct OrtEnv OrtEnv;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;

enum { ORT_LOGGING_LEVEL_WARNING = 2 };
enum { OrtArenaAllocator = 1 };
enum { OrtMemTypeDefault = 0 };
enum { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 };

typedef void (*Skipped)(void);

typedef struct OrtApi {
  Skipped skipped_0[2];
  const char *(*GetErrorMessage)(const OrtStatus *status);
  OrtStatus *(*CreateEnv)(int level, const char *name, OrtEnv **out);
  Skipped skipped_4[3];
  OrtStatus *(*CreateSession)(const OrtEnv *env, const char *file, const OrtSessionOptions *options, OrtSession **out);
  Skipped skipped_8[1];
  OrtStatus *(*Run)(OrtSession *session, const OrtRunOptions *options, const char *const *input_names,
                    const OrtValue *const *inputs, size_t inputs_count, const char *const *output_names,
                    size_t outputs_count, OrtValue **outputs);
  OrtStatus *(*CreateSessionOptions)(OrtSessionOptions **out);
  Skipped skipped_11[13];
  OrtStatus *(*SetIntraOpNumThreads)(OrtSessionOptions *options, int threads);
  Skipped skipped_25[24];
  OrtStatus *(*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo *info, void *data, size_t bytes,
                                               const int64_t *shape, size_t axes, int type, OrtValue **out);
  Skipped skipped_50[19];
  OrtStatus *(*CreateCpuMemoryInfo)(int allocator, int memory, OrtMemoryInfo **out);
} OrtApi;

typedef struct OrtApiBase {
  const OrtApi *(*GetApi)(uint32_t version);
  const char *(*GetVersionString)(void);
} OrtApiBase;

const OrtApiBase *OrtGetApiBase(void);

#define ORT_API_VERSION 1

#endif
