// A gradient in C++, and an error: c++ -std=c++17 gradient.cpp $(pkg-config --cflags --libs tede)
#include <iostream>
#include <tede/tede.hpp>

int main()
{
    tede::tensor x = td_ones(2, tede::ints({2, 3}), TD_F32, TD_DEVICE_NONE);
    x.requires_grad();
    tede::tensor y = (x * x + 1.0) / 2.0;
    tede::tensor loss = td_sum(y);
    loss.backward();
    std::cout << x.grad() << "\n" << loss.item() << "\n";
    try {
        tede::tensor bad = y + tede::tensor(td_ones(1, tede::ints({2}), TD_F32, TD_DEVICE_NONE));
    } catch (const tede::error &e) {
        std::cout << e.what() << "\n";
        return 0;
    }
    return 1;
}
