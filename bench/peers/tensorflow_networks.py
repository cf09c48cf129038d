"""The networks of apps/networks in TensorFlow, layer by layer, with plain operations on variables. These are the fastest on
CPUs. ReLU follows a max pool: the result is the same, and there are fewer elements.
"""

import math

import tensorflow as tf


class Network:
    """The constructor creates the variables in the strategy's scope. call() returns the logits of a batch."""

    def __init__(self, compute, recipe):
        self.compute, self.recipe = compute, recipe  # type of convolutions and dense layers
        self.variables, self.decays, self.layers = [], [], []  # decays: L2 of each variable
        self.frozen = []  # variables that are not trained

    def call(self, x):
        for layer in self.layers:
            x = layer(x)
        return tf.cast(x, tf.float32)

    def add(self, *layers):
        self.layers += layers
        return self

    def variable(self, value, decay=0.0):
        self.variables.append(tf.Variable(value))
        self.decays.append(decay)
        return self.variables[-1]

    def weights(self, shape, deviation, decay=0.0):
        """Returns weights of the given deviation, or Glorot's if it is None."""
        if deviation is None:
            area = math.prod(shape[:-2])
            limit = math.sqrt(6 / (area * (shape[-2] + shape[-1])))
            return self.variable(tf.random.uniform(shape, -limit, limit), decay)
        return self.variable(tf.random.truncated_normal(shape, stddev=deviation), decay)

    def conv(self, channels, filters, kernel, deviation=None, bias=0.0, padding="VALID", stride=1, biases=True,
             decay=0.0):
        kernel = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        w = self.weights([*kernel, channels, filters], deviation, decay)
        b = self.variable(tf.fill([filters], bias)) if biases else None

        def layer(x):
            y = tf.nn.conv2d(tf.cast(x, self.compute), tf.cast(w, self.compute), stride, padding)
            return tf.nn.bias_add(y, tf.cast(b, self.compute)) if biases else y

        return layer

    def dense(self, inputs, outputs, deviation=None, bias=0.0, decay=0.0):
        w, b = self.weights([inputs, outputs], deviation, decay), self.variable(tf.fill([outputs], bias))

        def layer(x):
            return tf.nn.bias_add(tf.matmul(tf.cast(x, self.compute), tf.cast(w, self.compute)),
                                  tf.cast(b, self.compute))

        return layer

    def whiten(self, channels, kernel):
        filters = 2 * kernel * kernel * channels
        w = tf.Variable(tf.random.normal([kernel, kernel, channels, filters]), trainable=False)
        self.frozen.append(w)
        b = self.variable(tf.zeros([filters]))
        return lambda x: tf.nn.bias_add(
            tf.nn.conv2d(tf.cast(x, self.compute), tf.cast(w, self.compute), 1, "VALID"), tf.cast(b, self.compute))

    def batch_norm(self, channels, epsilon=1e-5, follow=0.1, scaled=True):
        """Each replica keeps its own statistics, as in Lockstep."""
        scale = self.variable(tf.ones([channels])) if scaled else tf.ones([channels])
        offset = self.variable(tf.zeros([channels]))
        kept = [tf.Variable(value, trainable=False, synchronization=tf.VariableSynchronization.ON_READ,
                            aggregation=tf.VariableAggregation.MEAN)
                for value in (tf.zeros([channels]), tf.ones([channels]))]

        def layer(x):
            y, *seen = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=epsilon)
            for statistic, now in zip(kept, seen):
                statistic.assign_add(follow * (now - statistic))
            return y

        return layer

    def normalised(self, channels, filters, kernel, stride=1):
        """A convolution and batch norm. With stride 2 both sides get the same padding, unlike SAME of TensorFlow."""
        pad = kernel // 2
        padding = "SAME" if stride == 1 or not pad else [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        return (self.conv(channels, filters, kernel, math.sqrt(2 / (kernel * kernel * channels)), padding=padding,
                          stride=stride, biases=False, decay=self.recipe.decay),
                self.batch_norm(filters))

    def block(self, channels, filters, stride, project):
        """Two convolutions, plus the input: its pixels with zeros as additional channels, or a convolution of it."""
        branch = [*self.normalised(channels, filters, 3, stride), tf.nn.relu, *self.normalised(filters, filters, 3)]
        more = filters - channels
        shortcut = self.normalised(channels, filters, 1, stride) if project and more else []

        def layer(x):
            y, passed = x, x
            for step in branch:
                y = step(y)
            for step in shortcut:
                passed = step(passed)
            if more and not project:
                passed = tf.pad(x[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [more // 2, more // 2]])
            return tf.nn.relu(y + tf.cast(passed, y.dtype))

        return layer

    def embedding(self, vocabulary, size):
        """Texts become images of height 1. The gradient is sparse and summed by rows."""
        table = self.variable(tf.random.uniform([vocabulary, size], -0.05, 0.05))
        return lambda words: tf.expand_dims(tf.gather(table, words), 1)


def dropout(rate):
    return lambda x: tf.nn.dropout(x, rate)


def pool(kernel, stride, padding="VALID"):
    return lambda x: tf.nn.max_pool2d(x, kernel, stride, padding)


def response_norm(x):
    return tf.nn.local_response_normalization(tf.cast(x, tf.float32), 4, bias=1.0, alpha=0.001 / 9, beta=0.75)


def flatten(x):
    return tf.reshape(x, [x.shape[0], -1])


def tutorial(n):
    return n.add(
        n.conv(3, 64, 5, 0.05, padding="SAME"), pool(3, 2, "SAME"), tf.nn.relu, response_norm,
        n.conv(64, 64, 5, 0.05, 0.1, "SAME"), tf.nn.relu, response_norm, pool(3, 2, "SAME"),
        flatten,
        n.dense(2304, 384, 0.04, 0.1, decay=0.004), tf.nn.relu,
        n.dense(384, 192, 0.04, 0.1, decay=0.004), tf.nn.relu,
        n.dense(192, n.recipe.classes, 1 / 192))


def deep_mnist(n):
    return n.add(
        n.conv(1, 32, 5, 0.28, 0.1, "SAME"), pool(2, 2), tf.nn.relu,
        n.conv(32, 64, 5, 0.05, 0.1, "SAME"), pool(2, 2), tf.nn.relu,
        flatten,
        n.dense(3136, 1024, 0.025, 0.1), tf.nn.relu, dropout(0.5),
        n.dense(1024, n.recipe.classes, 0.03, 0.1))


def tower(n):
    return n.add(
        n.conv(1, 64, 5), pool(2, 2), tf.nn.relu,
        n.conv(64, 256, 3), tf.nn.relu,
        n.conv(256, 512, 3), pool(2, 2), tf.nn.relu,
        flatten,
        n.dense(8192, 2048), dropout(0.75), n.dense(2048, 1024), dropout(0.75), n.dense(1024, n.recipe.classes))


def keras(n):
    return n.add(
        n.conv(1, 32, 3), tf.nn.relu,
        n.conv(32, 256, 3), tf.nn.relu, n.batch_norm(256, 1e-3, 0.01),
        n.conv(256, 128, 3), pool(2, 2), tf.nn.relu,
        dropout(0.25),
        flatten,
        n.dense(15488, 128), tf.nn.relu, dropout(0.5), n.dense(128, n.recipe.classes))


def reuters(n):
    return n.add(
        n.embedding(n.recipe.vocabulary, 7),
        n.conv(7, 64, (1, 5)), pool((1, 2), (1, 2)), tf.nn.relu,
        n.conv(64, 32, (1, 3)), pool((1, 2), (1, 2)), tf.nn.relu,
        flatten,
        n.dense(2336, n.recipe.classes))


def residual(stages, blocks, filters, project):
    def build(n):
        n.add(*n.normalised(n.recipe.sample[2], filters, 3), tf.nn.relu)
        channels = filters
        for stage in range(stages):
            for number in range(blocks):
                wide, stride = filters << stage, 2 if stage and not number else 1
                n.add(n.block(channels, wide, stride, project))
                channels = wide
        return n.add(lambda x: tf.reduce_mean(x, [1, 2]), n.dense(channels, n.recipe.classes, decay=n.recipe.decay))

    return build


def airbench94(n):
    def gelu(x):
        return tf.nn.gelu(x, approximate=False)

    def through(channels, filters):
        return n.conv(channels, filters, 3, math.sqrt(1 / (27 * channels)), padding="SAME", biases=False)

    def norm(filters):
        return n.batch_norm(filters, 1.001e-5, 0.4, scaled=False)  # the fused kernel allows no smaller epsilon

    n.add(n.whiten(n.recipe.sample[2], 2), gelu)
    channels = 24
    for filters in (64, 256, 256):
        n.add(through(channels, filters), pool(2, 2), norm(filters), gelu, through(filters, filters), norm(filters), gelu)
        channels = filters
    w = n.weights([channels, n.recipe.classes], 1.0)
    return n.add(pool(3, 3), flatten,
                 lambda x: tf.matmul(tf.cast(x, n.compute), tf.cast(w, n.compute)) / channels)


NETWORKS = {
    "tutorial": tutorial, "deep_mnist": deep_mnist, "tower": tower, "keras": keras, "reuters": reuters,
    "resnet20": residual(3, 3, 16, project=False), "resnet18_cifar": residual(4, 2, 64, project=True),
    "airbench94": airbench94,
}
