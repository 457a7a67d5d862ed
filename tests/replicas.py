"""Eight logical devices, to try out several replicas in a process that imports this first."""

import tensorflow as tf

devices = [tf.config.LogicalDeviceConfiguration()] * 8
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)
