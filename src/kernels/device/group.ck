/* What a group of work items does together.  `room` is SHARED memory of WIDTH elements; all of the group call it. */

/* Folds the value of each lane into one, which all lanes get: by halves, so that the order depends on WIDTH alone. */
#define GROUP_FOLD(T, room, value, FOLD)                              \
    do {                                                              \
        room[LANE] = (value);                                         \
        for (int half_ = LANES / 2; half_ > 0; half_ /= 2) {          \
            BARRIER;                                                  \
            if (LANE < half_)                                         \
                room[LANE] = FOLD(room[LANE], room[LANE + half_]);    \
        }                                                             \
        BARRIER;                                                      \
        (value) = room[0];                                            \
        BARRIER;                                                      \
    } while (0)
