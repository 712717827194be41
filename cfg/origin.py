"""The origin of each configuration key if a session uses a run: the only list of it.

    origin_of("physics.substeps")        # Origin.POLICY
    paths(Origin.SESSION)                # ("mode", "checkpoint", ...)

| origin | in a test | in a resumed run |
| --- | --- | --- |
| POLICY | the run's, unless typed | the run's; another value is an error |
| RUN | the session's | the run's; another value is an error |
| ADJUSTABLE | the session's | the run's, unless typed |
| SESSION | the session's | the session's |

A window, page or recorder beside a training run is a test of it. `tests/test_origin.py` fails for a key that is not
listed here.
"""

from __future__ import annotations

from enum import Enum


class Origin(Enum):
    """Whether the run or the session decides a key; see the table above."""

    POLICY = "what the policy was trained with"
    RUN = "part of the exact continuation of a run, but not of what its policy was trained for"
    ADJUSTABLE = "how a run is carried out, which may change on resume"
    SESSION = "what this command line is for"


# the keys of a task or of an algorithm are not listed one by one
_KEYS: dict[Origin, str] = {
    Origin.POLICY: """
        task train
        physics.integrator physics.cone physics.iterations physics.tolerance physics.substeps
    """,
    Origin.RUN: """
        numEnvs seed gate
        sim.engine
        online.buffer_capacity online.look_ahead_trigger
    """,
    Origin.ADJUSTABLE: """
        maxIterations saveInterval saveFrequency keepLast keepEvery publishInterval
        device checks logLevel
        wandb wandbProject wandbEntity wandbGroup wandbMode
        sim.threads
        simulator playSpeed
        reloadInterval weights swap blendSeconds minSwapInterval historySize
        online.training_interval online.batch_size online.min_batch_size online.updates online.priority_sampling
        online.max_age_s online.pending_ttl_s online.log_decisions online.pending_capacity online.max_streams
        online.stream_rate
        online.expected_weight online.actual_weight online.train_on_wait online.train_on_blocked
        online.wait_multiplier online.on_disagreement online.disagreement_penalty
        online.gate_threshold online.look_ahead online.look_ahead_policy
        online.learning_rate online.lr_decay online.min_learning_rate online.ratio_clip online.trust
        online.trace_steps online.trace_decay online.kl_limit online.idle_rounds
        online.entropy_coef online.divergence_factor online.outlier_factor online.checkpoint_versions
        online.hang_timeout_s
        online.max_restarts online.spare_trainer
        challengerShare online.judge_rows online.judge_interval online.judge_confidence online.adopt_kl
        online.challenge_limit_s online.max_rollbacks
    """,
    Origin.SESSION: """
        mode checkpoint weightsTokenFile resume jobName runsDir projectDir
        testGamesNum episodesPerVersion priority stochastic agent onMismatch poolEnvs followLatest
        swapGuard swapGuardMargin swapGuardConfidence
        runs runsSelect runsPlot runsTag runsPin runsDelete reportDir objective
        log logStreams logFrom logUntil exportDir exportFormats
        exportFile exportParts exportModel exportStochastic exportActionDelay exportSensorDelays
        viewer watch
        streamPort streamBindAll streamToken streamSpectatorToken streamReadOnly streamHosts streamRate
        streamPage streamFps
        videoRecord videoEpisodes videoSeconds videoEnv videoWidth videoHeight videoDir videoEvery trainVideoEvery
    """,
}

ORIGIN: dict[str, Origin] = {path: origin for origin, listed in _KEYS.items() for path in listed.split()}
"""Path of a key -> its origin."""


def origin_of(path: str) -> Origin | None:
    """The origin of a key, which is listed by its own path or by that of its section; None if it is not listed."""
    while path not in ORIGIN and "." in path:
        path = path.rpartition(".")[0]
    return ORIGIN.get(path)


def paths(origin: Origin) -> tuple[str, ...]:
    """The listed paths with this origin."""
    return tuple(path for path, found in ORIGIN.items() if found is origin)
