/* Loops of the fused steps of SGD, Adam, AdamW and Adagrad, see optimizer_isa.c. */
#ifndef TD_KERNELS_CPU_NN_OPTIMIZER_H
#define TD_KERNELS_CPU_NN_OPTIMIZER_H
#include "kernels/cpu/loops/operands.h"

/* What a parameter's loop needs.  Numbers are doubles, so that float64 parameters lose nothing; loops of float32 round them once. */
typedef struct td_step_job {
    void *param, *grad;             /* grad is written only if `scaled` */
    void *first, *second, *largest; /* momentum or average; average of squares (Adagrad: sum); amsgrad's maximum */
    double lr, weight_decay, eps;
    double beta1, beta2;            /* of Adam */
    double step_size, root_correction;
    double momentum, dampening;
    double scale;                   /* gradients are divided by it */
    bool decoupled, maximize, nesterov, first_step, scaled;
} td_step_job;

typedef struct td_step_table {
    td_loop_body *sgd[2], *adam[2], *adagrad[2];
} td_step_table;

TD_ISA_TABLES(td_step_table, td_step_table);

#endif
