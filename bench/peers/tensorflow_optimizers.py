"""The optimizers of the recipes, with TensorFlow's kernels if there are any."""

import tensorflow as tf

BETA1, BETA2, RHO, EPSILON = 0.9, 0.999, 0.9, 1e-7
SLOTS = {"sgd": 0, "adam": 2, "rmsprop": 2, "nadam": 2, "muon": 1}  # per variable


def slots_of(recipe, variables):
    """Slots of each variable, made in the strategy's scope."""
    count = 1 if recipe.momentum else SLOTS[recipe.optimizer]
    return [[tf.Variable(tf.zeros_like(v), trainable=False) for _ in range(count)] for v in variables]


def corrections(recipe, t):
    """The factors that depend only on the step t = 1, 2, ... (a float tensor)."""
    if recipe.optimizer == "adam":
        return tf.pow(BETA1, t), tf.pow(BETA2, t)
    if recipe.optimizer == "nadam":
        def momentum(step):
            return BETA1 * (1 - 0.5 * tf.pow(0.96, step))

        steps = tf.range(1.0, 1001.0)  # later ones are all BETA1
        product = (tf.reduce_prod(tf.where(steps <= t, momentum(steps), 1.0)) *
                   tf.pow(BETA1, tf.maximum(t - 1000.0, 0.0)))
        after = momentum(t + 1)
        return after / (1 - product * after), (1 - momentum(t)) / (1 - product), 1 - tf.pow(BETA2, t)
    return ()


def apply(recipe, variable, gradient, slots, now):
    """One step of one replica's variable."""
    raw, rate = tf.raw_ops, recipe.rate
    handles = [slot.handle for slot in slots]
    if recipe.optimizer == "adam":
        return raw.ResourceApplyAdam(var=variable.handle, m=handles[0], v=handles[1], beta1_power=now[0],
                                     beta2_power=now[1], lr=rate, beta1=BETA1, beta2=BETA2, epsilon=1e-8,
                                     grad=gradient)
    if recipe.optimizer == "rmsprop":
        return raw.ResourceApplyRMSProp(var=variable.handle, ms=handles[0], mom=handles[1], lr=rate, rho=RHO,
                                        momentum=0.0, epsilon=EPSILON, grad=gradient)
    if recipe.optimizer == "nadam":
        m, v = slots
        mean = m.assign(BETA1 * m + (1 - BETA1) * gradient)
        square = v.assign(BETA2 * v + (1 - BETA2) * tf.square(gradient))
        return variable.assign_sub(rate * (now[0] * mean + now[1] * gradient) /
                                   (tf.sqrt(square / now[2]) + EPSILON))
    if recipe.optimizer == "muon":
        filters = len(variable.shape) == 4
        momentum = recipe.momentum if filters else recipe.other_momentum
        direction = gradient + momentum * slots[0].assign(momentum * slots[0] + gradient)
        if not filters:
            return variable.assign_sub(rate * direction)
        count = variable.shape[-1]
        x = tf.reshape(direction, [-1, count])  # a filter is a column here
        x = x / tf.norm(x)
        for _ in range(recipe.iterations):
            square = tf.matmul(x, x, transpose_a=True)
            x = 3.4445 * x + tf.matmul(x, -4.7750 * square + 2.0315 * tf.matmul(square, square))
        return variable.assign(variable * (count ** 0.5 / tf.norm(variable)) - rate * tf.reshape(x, variable.shape))
    if recipe.momentum:
        return raw.ResourceApplyKerasMomentum(var=variable.handle, accum=handles[0], lr=rate, grad=gradient,
                                              momentum=recipe.momentum)
    return raw.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
