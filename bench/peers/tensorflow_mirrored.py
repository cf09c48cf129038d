#!/usr/bin/env python3
"""The tutorial network under TensorFlow's MirroredStrategy on logical CPU devices: images/s of a training step.

Prints one JSON line. README.md of this folder says how to get TensorFlow.
The same work as bench_step: forward, backward with the all-reduce, and the SGD update of the network of
net/models/tutorial.cc, on images of CIFAR's shape that already lie in memory.
"""

import argparse
import json
import os
import statistics
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="logical devices, one replica each")
    parser.add_argument("--threads", type=int, default=1, help="threads for each of them (one pool for all)")
    parser.add_argument("--batch", type=int, default=64, help="images per device and step")
    parser.add_argument("--steps", type=int, default=40, help="timed steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: convolutions and dense layers compute in it, the rest in fp32")
    parser.add_argument("--xla", action="store_true", help="compile each replica's step with XLA")
    return parser.parse_args()


def main():
    started = time.time()
    options = parse()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        import tensorflow as tf
    except ImportError:
        raise SystemExit("tensorflow_mirrored.py: TensorFlow is missing: bench/peers/README.md says how to get it.")

    tf.config.threading.set_intra_op_parallelism_threads(options.ranks * options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.ranks)
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(options.ranks)])
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(options.ranks)])
    compute = tf.bfloat16 if options.dtype == "bf16" else tf.float32
    global_batch = options.batch * options.ranks

    tf.random.set_seed(1)

    def weights(shape, std):
        return tf.Variable(tf.random.truncated_normal(shape, stddev=std))

    def biases(size, value):
        return tf.Variable(tf.fill([size], value))

    with strategy.scope():
        conv1, bias1 = weights([5, 5, 3, 64], 0.05), biases(64, 0.0)
        conv2, bias2 = weights([5, 5, 64, 64], 0.05), biases(64, 0.1)
        dense3, bias3 = weights([2304, 384], 0.04), biases(384, 0.1)
        dense4, bias4 = weights([384, 192], 0.04), biases(192, 0.1)
        dense5, bias5 = weights([192, 10], 1 / 192), biases(10, 0.0)
    variables = [conv1, bias1, conv2, bias2, dense3, bias3, dense4, bias4, dense5, bias5]

    def conv(x, w, b):
        y = tf.nn.conv2d(tf.cast(x, compute), tf.cast(w, compute), 1, "SAME")
        return tf.nn.relu(tf.nn.bias_add(y, tf.cast(b, compute)))

    def dense(x, w, b):
        return tf.nn.bias_add(tf.matmul(tf.cast(x, compute), tf.cast(w, compute)), tf.cast(b, compute))

    def norm(x):
        return tf.nn.local_response_normalization(tf.cast(x, tf.float32), 4, bias=1.0, alpha=0.001 / 9, beta=0.75)

    def pool(x):
        return tf.nn.max_pool2d(x, 3, 2, "SAME")

    def loss_of(images, labels):
        x = norm(pool(conv(images, conv1, bias1)))
        x = pool(norm(conv(x, conv2, bias2)))
        x = tf.reshape(x, [options.batch, 2304])
        x = tf.nn.relu(dense(x, dense3, bias3))
        x = tf.nn.relu(dense(x, dense4, bias4))
        logits = tf.cast(dense(x, dense5, bias5), tf.float32)
        # Divided by the global batch, so that the sum over replicas is the mean.
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)) / global_batch

    def update_all(distribution, gradients):
        total = distribution.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, list(zip(gradients, variables)))
        for variable, gradient in zip(variables, total):
            decay = 0.004 if variable is dense3 or variable is dense4 else 0.0  # L2
            distribution.extended.update(
                variable, lambda v, g, d=decay: v.assign_sub(0.1 * (g + d * v) if d else 0.1 * g), args=(gradient,))

    @tf.function(jit_compile=options.xla)
    def gradients_of(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(images, labels)
        return loss, tape.gradient(loss, variables)

    @tf.function
    def step(images, labels):
        def replica(images, labels):
            loss, gradients = gradients_of(images, labels)
            tf.distribute.get_replica_context().merge_call(update_all, args=(gradients,))
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(images, labels)), axis=None)

    def spread(make):
        return strategy.experimental_distribute_values_from_function(lambda context: make())

    batches = [(spread(lambda: tf.random.normal([options.batch, 24, 24, 3])),
                spread(lambda: tf.random.uniform([options.batch], maxval=10, dtype=tf.int32))) for _ in range(8)]

    times, first = [], None
    for number in range(options.warmup + options.steps):
        begin = time.perf_counter()
        loss = float(step(*batches[number % len(batches)]))
        end = time.perf_counter()
        first = first or time.time() - started
        if number >= options.warmup:
            times.append(end - begin)
    seconds = statistics.median(times)
    print(json.dumps({
        "peer": "tensorflow_mirrored", "version": tf.__version__, "ranks": options.ranks, "threads": options.threads,
        "batch": options.batch, "precision": options.dtype, "xla": options.xla,
        "parameters": int(sum(v.shape.num_elements() for v in variables)),
        "images_per_s": round(global_batch / seconds, 1), "seconds_per_step": round(seconds, 6),
        "first_step_after_s": round(first, 2), "loss": round(loss, 4)}), flush=True)


if __name__ == "__main__":
    main()
