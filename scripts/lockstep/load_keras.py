"""Loads a Lockstep checkpoint into Keras 3 and compares its logits with those of Lockstep:

  build/evaluate RUN --logits logits.h5
  scripts/load_keras.py RUN --check logits.h5 --save model.keras

Needs keras with a backend, and h5py:  pip install keras tensorflow h5py
"""
import argparse

from lockstep import networks


def build(layers, shape, arrays):
    """Returns the network as a keras.Model for samples of `shape`, with the weights of `arrays`."""
    import keras
    import numpy
    from keras import layers as kl, ops

    weights = []  # (layer, arrays): set after the model is built

    def convolution(x, name, kernel, stride, padding, relu):
        flat = len(x.shape) == 3
        if padding != "valid" and kernel > 1:
            x = (kl.ZeroPadding1D if flat else kl.ZeroPadding2D)(kernel // 2)(x)
        filters, bias = arrays[name + "/weights"], arrays.get(name + "/biases")
        layer = (kl.Conv1D if flat else kl.Conv2D)(len(filters), kernel, stride, activation="relu" if relu else None,
                                                   use_bias=bias is not None)
        weights.append((layer, [numpy.moveaxis(filters, 0, -1)] + ([] if bias is None else [bias])))
        return layer(x)

    def dense(x, name, relu):
        bias = arrays.get(name + "/biases")
        layer = kl.Dense(len(arrays[name + "/weights"]), activation="relu" if relu else None, use_bias=bias is not None)
        weights.append((layer, [arrays[name + "/weights"].T] + ([] if bias is None else [bias])))
        return layer(kl.Flatten()(x) if len(x.shape) > 2 else x)

    def normalise(x, name, epsilon):
        parts = [f"{name}/{part}" for part in ("gamma", "beta", "mean", "variance")]
        layer = kl.BatchNormalization(epsilon=epsilon, scale=parts[0] in arrays)
        weights.append((layer, [arrays[part] for part in parts if part in arrays]))
        return layer(x)

    def embed(x, name):
        vectors = arrays[name + "/vectors"]
        layer = kl.Embedding(*vectors.shape)
        weights.append((layer, [vectors]))
        return layer(x)

    def pool(x, name, kernel, stride, padding, relu):
        if padding == "centred":
            half = [kernel // 2, kernel // 2]
            x = ops.pad(x, [[0, 0], half, half, [0, 0]], constant_values=float("-inf"))
            padding = "valid"
        x = (kl.MaxPooling1D if len(x.shape) == 3 else kl.MaxPooling2D)(kernel, stride, padding)(x)
        return kl.ReLU()(x) if relu else x

    def respond(x, name, radius, bias, alpha, beta):
        squares = ops.pad(ops.square(x), [[0, 0]] * 3 + [[radius, radius]])
        channels = x.shape[-1]
        total = sum(squares[..., k:k + channels] for k in range(2 * radius + 1))
        return x * (bias + alpha * total) ** -beta

    def subsample(x, name, stride, channels):
        x = x[:, ::stride, ::stride]
        return ops.pad(x, [[0, 0]] * 3 + [[0, channels - x.shape[-1]]])

    def residual(x, name, branch, shortcut):
        return kl.Add()([run(branch, x), run(shortcut, x) if shortcut else x])

    steps = {"convolution": convolution, "dense": dense, "batch_norm": normalise, "embedding": embed, "max_pool": pool,
             "response_norm": respond, "subsample": subsample, "residual": residual,
             "rescale": lambda x, name, factor, offset: kl.Rescaling(factor, offset)(x),
             "relu": lambda x, name: kl.ReLU()(x), "gelu": lambda x, name: ops.gelu(x, approximate=False),
             "flatten": lambda x, name: kl.Flatten()(x), "softmax": lambda x, name: kl.Softmax()(x),
             "global_average_pool": lambda x, name: kl.GlobalAveragePooling2D()(x),
             "global_max_pool": lambda x, name: ops.max(x, axis=tuple(range(1, len(x.shape) - 1)))}

    def run(some, x):
        for kind, name, keys in some:
            x = steps[kind](x, name, **keys)
        return x

    x = keras.Input(shape, dtype="int32" if layers[0][0] == "embedding" else "float32")
    model = keras.Model(x, run(layers, x))
    for layer, values in weights:
        layer.set_weights(values)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", help="name of a run in runs/, folder of a run, or file of a checkpoint")
    networks.add_weights_option(parser)
    parser.add_argument("--check", required=True, metavar="LOGITS", help="file that evaluate --logits wrote")
    parser.add_argument("--save", metavar="FILE", help="file for the model in the format of Keras")
    arguments = parser.parse_args()
    networks.need("keras", "h5py")
    name, arrays = networks.read_checkpoint(arguments.run, arguments.weights, arguments.which)
    with networks.open_file(arguments.check) as file:
        shape = file["samples"].shape[1:]
    model = build(networks.layers_of(name), shape, arrays)
    networks.compare(arguments.check, lambda samples: model.predict(samples, verbose=0))
    if arguments.save:
        model.save(arguments.save)


if __name__ == "__main__":
    main()
