// A gradient in C++, and an error: c++ -std=c++17 gradient.cpp $(pkg-config --cflags --libs tede)
#include <iostream>
#include <tede/tede.hpp>

int main()
{
    const std::int64_t sizes[] = {2, 3};
    tede::tensor x = td_ones(2, sizes, TD_F32, TD_DEVICE_NONE);
    x.requires_grad();
    tede::tensor y = (x * x + 1.0) / 2.0;
    tede::tensor loss = td_sum_all(y, TD_DTYPE_NONE);
    loss.backward();
    std::cout << x.grad() << "\n" << loss.item() << "\n";
    try {
        tede::tensor bad = y + tede::tensor(td_ones(1, sizes, TD_F32, TD_DEVICE_NONE));
    } catch (const tede::error &e) {
        std::cout << e.what() << "\n";
        return 0;
    }
    return 1;
}
