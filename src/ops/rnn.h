/* The modes of recurrent layers, as their operators get them. */
#ifndef TD_OPS_RNN_H
#define TD_OPS_RNN_H

enum { TD_RNN_RELU, TD_RNN_TANH, TD_RNN_LSTM, TD_RNN_GRU };

#endif
