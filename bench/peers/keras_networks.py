"""The networks of apps/networks in Keras 3, layer by layer, for its back ends TensorFlow and JAX. Layers of Keras that are
slow on CPUs are replaced. ReLU follows a max pool: the result is the same, and there are fewer elements.
"""

import math

import keras
from keras import initializers, layers, ops

TENSORFLOW = keras.backend.backend() == "tensorflow"
if TENSORFLOW:
    import tensorflow as tf


class Norm(layers.BatchNormalization):
    """Batch norm with TensorFlow's fused kernel. Each replica keeps its own statistics, as in Lockstep."""

    def build(self, shape):
        super().build(shape)
        if TENSORFLOW:
            self.kept = [tf.Variable(value, trainable=False, synchronization=tf.VariableSynchronization.ON_READ,
                                     aggregation=tf.VariableAggregation.MEAN)
                         for value in (tf.zeros(shape[-1:]), tf.ones(shape[-1:]))]

    def call(self, x, training=None, mask=None):
        if not TENSORFLOW:
            return super().call(x, training=training)
        scale = self.gamma.value if self.scale else tf.ones(x.shape[-1:])
        y, *seen = tf.compat.v1.nn.fused_batch_norm(x, scale, self.beta.value, epsilon=self.epsilon)
        for statistic, now in zip(self.kept, seen):
            statistic.assign_add((1 - self.momentum) * (now - statistic))
        return y


class Dropout(layers.Dropout):
    def call(self, x, training=None):
        return tf.nn.dropout(x, self.rate) if TENSORFLOW else super().call(x, training=training)


class ResponseNorm(layers.Layer):
    """Computes x / (1 + alpha * sum of squares of 9 neighbouring channels)^0.75 with alpha = 0.001 / 9 in fp32. Without
    TensorFlow's kernel a product with a band matrix sums the squares."""

    def __init__(self):
        super().__init__(dtype="float32")

    def call(self, x):
        if TENSORFLOW:
            return tf.nn.local_response_normalization(x, 4, bias=1.0, alpha=0.001 / 9, beta=0.75)
        channel = ops.arange(x.shape[-1])
        band = ops.cast(ops.abs(channel[:, None] - channel) <= 4, x.dtype)
        root = ops.rsqrt(1.0 + 0.001 / 9 * ops.matmul(x * x, band))
        return x * root * ops.sqrt(root)


class Whiten(layers.Conv2D):
    """A convolution whose filters are not trained."""

    def build(self, shape):
        super().build(shape)
        self.kernel.trainable = False


class Tokens(layers.Layer):
    """Adds the class token and the positions to a sequence of patches."""

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, shape[2]), initializer="zeros", name="token")
        self.position = self.add_weight(shape=(1, shape[1] + 1, shape[2]), initializer=normal(0.02), name="position")

    def call(self, x):
        token = ops.broadcast_to(self.token, (ops.shape(x)[0], 1, x.shape[2]))
        return ops.concatenate([ops.cast(token, x.dtype), x], axis=1) + self.position


def normal(deviation):
    return initializers.TruncatedNormal(stddev=deviation)


def conv(filters, kernel, deviation=None, bias=0.0, **more):
    return layers.Conv2D(filters, kernel, kernel_initializer=normal(deviation) if deviation else "glorot_uniform",
                         bias_initializer=initializers.Constant(bias), **more)


def dense(outputs, deviation=None, bias=0.0, decay=0.0):
    """A regulariser tells the driver which decay this layer has instead of the recipe's."""
    return layers.Dense(outputs, kernel_initializer=normal(deviation) if deviation else "glorot_uniform",
                        bias_initializer=initializers.Constant(bias),
                        kernel_regularizer=keras.regularizers.L2(decay / 2) if decay else None)


def pool(kernel, stride, padding="valid"):
    return layers.MaxPooling2D(kernel, stride, padding)


def relu():
    return layers.ReLU()


def gelu():
    return layers.Activation("gelu")  # TensorFlow and JAX: exact


def network(recipe, *sequence):
    return keras.Sequential([keras.Input(recipe.sample, dtype="int32" if recipe.vocabulary else "float32"), *sequence])


def tutorial(recipe):
    return network(
        recipe,
        conv(64, 5, 0.05, padding="same"), pool(3, 2, "same"), relu(), ResponseNorm(),
        conv(64, 5, 0.05, 0.1, padding="same"), relu(), ResponseNorm(), pool(3, 2, "same"),
        layers.Flatten(),
        dense(384, 0.04, 0.1, decay=0.004), relu(), dense(192, 0.04, 0.1, decay=0.004), relu(),
        dense(recipe.classes, 1 / 192))


def deep_mnist(recipe):
    return network(
        recipe,
        conv(32, 5, 0.28, 0.1, padding="same"), pool(2, 2), relu(),
        conv(64, 5, 0.05, 0.1, padding="same"), pool(2, 2), relu(),
        layers.Flatten(),
        dense(1024, 0.025, 0.1), relu(), Dropout(0.5), dense(recipe.classes, 0.03, 0.1))


def tower(recipe):
    return network(
        recipe,
        conv(64, 5), pool(2, 2), relu(), conv(256, 3), relu(), conv(512, 3), pool(2, 2), relu(),
        layers.Flatten(),
        dense(2048), Dropout(0.75), dense(1024), Dropout(0.75), dense(recipe.classes))


def keras_example(recipe):
    return network(
        recipe,
        conv(32, 3), relu(),
        conv(256, 3), relu(), Norm(epsilon=1e-3, momentum=0.99),
        conv(128, 3), pool(2, 2), relu(),
        Dropout(0.25),
        layers.Flatten(),
        dense(128), relu(), Dropout(0.5), dense(recipe.classes))


def reuters(recipe):
    """Texts become images of height 1."""
    return network(
        recipe,
        layers.Embedding(recipe.vocabulary, 7), layers.Reshape((1, *recipe.sample, 7)),
        conv(64, (1, 5)), pool((1, 2), (1, 2)), relu(),
        conv(32, (1, 3)), pool((1, 2), (1, 2)), relu(),
        layers.Flatten(),
        dense(recipe.classes))


def residual(stages, blocks, filters, project):
    """Blocks of two convolutions, plus the input: its pixels with zeros as additional channels, or a convolution of it."""
    def normalised(x, wide, kernel, stride=1):
        deviation = math.sqrt(2 / (kernel * kernel * x.shape[-1]))
        if stride > 1 and kernel > 1:  # both sides get the same padding, unlike "same" of Keras
            x = layers.ZeroPadding2D(kernel // 2)(x)
        padding = "same" if stride == 1 else "valid"
        x = conv(wide, kernel, deviation, strides=stride, padding=padding, use_bias=False)(x)
        return Norm(epsilon=1e-5, momentum=0.9)(x)

    def build(recipe):
        inputs = keras.Input(recipe.sample)
        x = relu()(normalised(inputs, filters, 3))
        for number in range(stages * blocks):
            wide, stride = filters << number // blocks, 2 if number and number % blocks == 0 else 1
            more = wide - x.shape[-1]
            y = normalised(relu()(normalised(x, wide, 3, stride)), wide, 3)
            if more and project:
                x = normalised(x, wide, 1, stride)
            elif more:
                x = ops.pad(x[:, ::stride, ::stride], [[0, 0], [0, 0], [0, 0], [more // 2, more // 2]])
            x = relu()(y + x)
        return keras.Model(inputs, dense(recipe.classes)(layers.GlobalAveragePooling2D()(x)))

    return build


def airbench94(recipe):
    def norm():
        return Norm(epsilon=1.001e-5, momentum=0.6, scale=False)  # the fused kernel allows no smaller epsilon

    sequence, channels = [Whiten(24, 2), gelu()], 24
    for filters in (64, 256, 256):
        through = [conv(filters, 3, math.sqrt(1 / (27 * count)), padding="same", use_bias=False)
                   for count in (channels, filters)]
        sequence += [through[0], pool(2, 2), norm(), gelu(), through[1], norm(), gelu()]
        channels = filters
    return network(recipe, *sequence, pool(3, 3), layers.Flatten(),
                   layers.Dense(recipe.classes, use_bias=False, kernel_initializer=normal(1.0)),
                   layers.Rescaling(1 / channels))


def of_applications(name, **more):
    """Returns a function that builds the network of keras.applications with the layers of torchvision's."""
    def improved(layer):
        config = layer.get_config()
        if isinstance(layer, layers.BatchNormalization):
            return Norm.from_config(config)
        if isinstance(layer, layers.Dropout):
            return Dropout.from_config(config)
        if isinstance(layer, layers.Conv2D) and layer.groups == layer.filters > 1:
            return layers.DepthwiseConv2D(layer.kernel_size, padding=layer.padding, name=layer.name)
        if isinstance(layer, layers.Conv2D) and name == "ResNet50":
            config["use_bias"] = False
            if layer.strides == (2, 2) and layer.name.endswith("_1_conv"):
                config["strides"] = 1  # torchvision: the next convolution has the stride
            elif layer.name in ("conv3_block1_2_conv", "conv4_block1_2_conv", "conv5_block1_2_conv"):
                config["strides"] = 2
        return type(layer).from_config(config)

    def build(recipe):
        model = getattr(keras.applications, name)(weights=None, classes=recipe.classes, input_shape=recipe.sample,
                                                  classifier_activation=None, **more)
        return keras.models.clone_model(model, clone_function=improved)

    return build


def vit_b_16(recipe):
    def norm(x):
        return layers.LayerNormalization(epsilon=1e-6)(x)

    inputs = keras.Input(recipe.sample)
    x = Tokens()(layers.Reshape((-1, 768))(conv(768, 16, strides=16)(inputs)))
    for _ in range(12):
        y = norm(x)
        x = x + layers.MultiHeadAttention(12, 64)(y, y)
        x = x + dense(768)(gelu()(dense(3072)(norm(x))))
    return keras.Model(inputs, dense(recipe.classes)(norm(x)[:, 0]))


NETWORKS = {
    "tutorial": tutorial, "deep_mnist": deep_mnist, "tower": tower, "keras": keras_example, "reuters": reuters,
    "resnet20": residual(3, 3, 16, project=False), "resnet18_cifar": residual(4, 2, 64, project=True),
    "airbench94": airbench94, "vit_b_16": vit_b_16,
    "resnet50": of_applications("ResNet50"), "convnext_tiny": of_applications("ConvNeXtTiny", include_preprocessing=False),
    "mobilenet_v3_large": of_applications("MobileNetV3Large", include_preprocessing=False),
}
