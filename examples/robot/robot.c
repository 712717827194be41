/* A policy on a robot, without Python: ONNX Runtime and MuJoCo from C.
 *
 *   python train.py config=export checkpoint=latest exportFile=cartpole.onnx
 *   sh examples/robot/build.sh robot
 *   ./robot cartpole.onnx tasks/models/cartpole.xml 500
 *
 * MuJoCo stands for the robot. The policy is one of Cartpole: it takes the blocks cart_position, cart_velocity,
 * pole_angle and pole_velocity, in this order, and gives the push in N.
 */
#include <math.h>
#include <mujoco/mujoco.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef OFFICIAL_HEADER
#include <onnxruntime_c_api.h>
#else
#include "ort_c_api.h"
#endif

enum { OBS = 4, CONTROLS = 1 };
static const double CONTROL_DT = 1.0 / 60.0; /* s: the file's metadata has it as control_dt */

static const OrtApi *ort;

static void check(OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "onnxruntime: %s\n", ort->GetErrorMessage(status));
  exit(1);
}

static OrtValue *tensor(const OrtMemoryInfo *memory, float *data, int64_t width) {
  const int64_t shape[] = {1, width}; /* one robot */
  OrtValue *value = NULL;
  check(ort->CreateTensorWithDataAsOrtValue(memory, data, (size_t)width * sizeof(float), shape, 2,
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  return value;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s policy.onnx model.xml steps\n", argv[0]);
    return 2;
  }
  char error[1000] = "";
  mjModel *model = mj_loadXML(argv[2], NULL, error, sizeof error);
  if (model == NULL) {
    fprintf(stderr, "mujoco: %s\n", error);
    return 1;
  }
  if (model->nq != 2 || model->nu != CONTROLS) {
    fprintf(stderr, "%s is not the model of Cartpole\n", argv[2]);
    return 1;
  }
  mjData *data = mj_makeData(model);

  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (ort == NULL) {
    fprintf(stderr, "onnxruntime %s is older than the header, version %d of the API\n", OrtGetApiBase()->GetVersionString(),
            ORT_API_VERSION);
    return 1;
  }
  OrtEnv *env;
  OrtSessionOptions *options;
  OrtSession *session;
  OrtMemoryInfo *memory;
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "robot", &env));
  check(ort->CreateSessionOptions(&options));
  check(ort->SetIntraOpNumThreads(options, 1));
  check(ort->CreateSession(env, argv[1], options, &session));
  check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));

  float obs[OBS], controls[CONTROLS]; /* both tensors use this memory: a step allocates nothing here */
  OrtValue *input = tensor(memory, obs, OBS), *output = tensor(memory, controls, CONTROLS);
  const char *input_names[] = {"obs"}, *output_names[] = {"controls"};

  data->qpos[1] = 0.05; /* rad: the pole leans a little */
  const int steps = atoi(argv[3]), substeps = (int)lround(CONTROL_DT / model->opt.timestep);
  for (int step = 0; step < steps; step++) {
    obs[0] = (float)data->qpos[0];
    obs[1] = (float)data->qvel[0];
    obs[2] = (float)data->qpos[1];
    obs[3] = (float)data->qvel[1];
    check(ort->Run(session, NULL, input_names, (const OrtValue *const *)&input, 1, output_names, 1, &output));
    data->ctrl[0] = controls[0];
    for (int i = 0; i < substeps; i++) mj_step(model, data);
  }
  printf("after %d control steps: cart at %.6f m, pole at %.6f rad\n", steps, data->qpos[0], data->qpos[1]);
  return 0;
}
