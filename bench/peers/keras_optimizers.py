"""The optimizers of the recipes for both back ends of Keras 3. They use kernels of TensorFlow if there is one."""

from keras import ops

BETA1, BETA2, RHO, EPSILON = 0.9, 0.999, 0.9, 1e-7
SLOTS = {"adam": 2, "adamw": 2, "rmsprop": 2, "nadam": 2, "muon": 1}  # slots per variable


def slot_count(recipe):
    return SLOTS.get(recipe.optimizer, 1 if recipe.momentum else 0)


def decays_of(recipe, variables):
    """Returns the L2 of each variable."""
    if recipe.optimizer == "adamw":  # step() decays the variables
        return [0.0] * len(variables)
    return [2 * float(v.regularizer.l2) if v.regularizer else recipe.decay * (len(v.shape) > 1) for v in variables]


def corrections(recipe, t):
    """Returns the factors that depend only on the step t = 1, 2, ... (a float tensor)."""
    if recipe.optimizer in ("adam", "adamw"):
        return ops.power(BETA1, t), ops.power(BETA2, t)
    if recipe.optimizer == "nadam":
        def momentum(step):
            return BETA1 * (1 - 0.5 * ops.power(0.96, step))

        steps = ops.arange(1.0, 1001.0)  # later momenta equal BETA1
        product = (ops.prod(ops.where(steps <= t, momentum(steps), 1.0)) *
                   ops.power(BETA1, ops.maximum(t - 1000.0, 0.0)))
        after = momentum(t + 1)
        return after / (1 - product * after), (1 - momentum(t)) / (1 - product), 1 - ops.power(BETA2, t)
    return ()


def length(v):
    return ops.sqrt(ops.sum(v * v))


def step(recipe, v, gradient, slots, now):
    """Returns the variable and its slots after one step."""
    rate = recipe.rate
    if recipe.optimizer in ("adam", "adamw"):
        m = slots[0] + (1 - BETA1) * (gradient - slots[0])
        square = slots[1] + (1 - BETA2) * (gradient * gradient - slots[1])
        if recipe.optimizer == "adamw" and len(v.shape) > 1:
            v = v * (1 - rate * recipe.decay)
        return v - rate * ops.sqrt(1 - now[1]) / (1 - now[0]) * m / (ops.sqrt(square) + 1e-8), [m, square]
    if recipe.optimizer == "rmsprop":
        square = RHO * slots[0] + (1 - RHO) * gradient * gradient
        return v - rate * gradient * ops.rsqrt(square + EPSILON), [square, slots[1]]
    if recipe.optimizer == "nadam":
        m = BETA1 * slots[0] + (1 - BETA1) * gradient
        square = BETA2 * slots[1] + (1 - BETA2) * gradient * gradient
        return v - rate * (now[0] * m + now[1] * gradient) / (ops.sqrt(square / now[2]) + EPSILON), [m, square]
    if recipe.optimizer == "muon":
        filters = len(v.shape) == 4
        momentum = recipe.momentum if filters else recipe.other_momentum
        kept = momentum * slots[0] + gradient
        direction = gradient + momentum * kept
        if not filters:
            return v - rate * direction, [kept]
        x = ops.reshape(direction, [-1, v.shape[-1]])  # a filter is a column here
        x = x / length(x)
        for _ in range(recipe.iterations):
            square = ops.matmul(ops.transpose(x), x)
            x = 3.4445 * x + ops.matmul(x, -4.7750 * square + 2.0315 * ops.matmul(square, square))
        return v * (v.shape[-1] ** 0.5 / length(v)) - rate * ops.reshape(x, v.shape), [kept]
    if recipe.momentum:
        kept = recipe.momentum * slots[0] - rate * gradient
        return v + kept, [kept]
    return v - rate * gradient, []


def apply(recipe, v, gradient, slots, now):
    """Does one step of a tf.Variable, and of its slots."""
    import tensorflow as tf

    raw, rate, handles = tf.raw_ops, recipe.rate, [slot.handle for slot in slots]
    if recipe.optimizer in ("adam", "adamw"):
        if recipe.optimizer == "adamw" and len(v.shape) > 1:
            v.assign(v * (1 - rate * recipe.decay))
        raw.ResourceApplyAdam(var=v.handle, m=handles[0], v=handles[1], beta1_power=now[0], beta2_power=now[1], lr=rate,
                              beta1=BETA1, beta2=BETA2, epsilon=1e-8, grad=gradient)
    elif recipe.optimizer == "rmsprop":
        raw.ResourceApplyRMSProp(var=v.handle, ms=handles[0], mom=handles[1], lr=rate, rho=RHO, momentum=0.0,
                                 epsilon=EPSILON, grad=gradient)
    elif recipe.optimizer == "sgd" and recipe.momentum:
        raw.ResourceApplyKerasMomentum(var=v.handle, accum=handles[0], lr=rate, grad=gradient, momentum=recipe.momentum)
    elif recipe.optimizer == "sgd":
        raw.ResourceApplyGradientDescent(var=v.handle, alpha=rate, delta=gradient)
    else:
        after, kept = step(recipe, tf.convert_to_tensor(v), gradient, [tf.convert_to_tensor(s) for s in slots], now)
        for variable, value in zip([v, *slots], [after, *kept]):
            variable.assign(value)
