class HoundCfg:
    class env:
        num_envs = 64
        num_observations = 17
        num_privileged_obs = 18
        num_actions = 4
        episode_length_s = 1.0

    class terrain:
        mesh_type = "plane"
        friction = 1.0

    class init_state:
        height = 0.27
        angles = {"front_left": -0.3, "front_right": -0.3, "rear_left": 0.3, "rear_right": 0.3}

    class control:
        stiffness = 30.0
        damping = 0.8
        action_scale = 0.5
        decimation = 4

    class asset:
        file = "hound.urdf"
        name = "hound"

    class domain_rand:
        friction_range = (0.4, 1.2)
        added_mass_range = (-0.3, 0.3)
        push_interval = 15
        max_push_vel = 0.0

    class normalization:
        clip_observations = 50.0
        clip_actions = 3.0

    class sim:
        dt = 0.005
        substeps = 1
        gravity = [0.0, 0.0, -9.81]
        up_axis = 1


class HoundRoughCfg(HoundCfg):
    class terrain(HoundCfg.terrain):
        mesh_type = "trimesh"


class HoundCfgPPO:
    seed = 1
    runner_class_name = "OnPolicyRunner"

    class policy:
        init_noise_std = 0.5
        actor_hidden_dims = [32, 32]
        critic_hidden_dims = [32, 32]
        activation = "elu"

    class algorithm:
        value_loss_coef = 1.0
        clip_param = 0.2
        num_learning_epochs = 4
        num_mini_batches = 2
        learning_rate = 1.0e-3
        schedule = "adaptive"
        desired_kl = 0.01
        gamma = 0.97
        lam = 0.95

    class runner:
        num_steps_per_env = 16
        max_iterations = 20
