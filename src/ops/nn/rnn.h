/* The modes of recurrent layers, as their operators get them. */
#ifndef TD_OPS_NN_RNN_H
#define TD_OPS_NN_RNN_H

/* One number of gates for the first two, four for LSTM (input, forget, cell, output), three for GRU (reset, update,
 * new): the order of their blocks in weights, biases and products is PyTorch's. Modes from LSTM on save their gates
 * for the backward pass. */
enum { TD_RNN_RELU, TD_RNN_TANH, TD_RNN_LSTM, TD_RNN_GRU };

#endif
