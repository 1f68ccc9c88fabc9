// Declarations only: just enough of the public names and signatures to check the syntax of generated kernels.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define AICORE
#define __gm__

enum pipe_t { PIPE_V, PIPE_MTE2, PIPE_MTE3 };
enum event_t { EVENT_ID0 };
void set_flag(pipe_t, pipe_t, event_t);
void wait_flag(pipe_t, pipe_t, event_t);
void pipe_barrier(pipe_t);

struct half { uint16_t bits; };
struct bfloat16_t { uint16_t bits; };

namespace pto {
constexpr int DYNAMIC = -1;
enum class TileType { Vec, Mat, Left, Right, Acc, Bias, Scaling, ScaleLeft, ScaleRight, Ctrl };
enum class BLayout { RowMajor, ColMajor };
enum class SLayout { NoneBox, RowMajor, ColMajor };
enum class PadValue { Null, Zero, Max, Min };
enum class CompactMode { Null, Normal, RowPlusOne, RowAlignedPadding };
enum class Layout { ND, DN, NZ };

template <TileType Where, typename Element, int Rows, int Cols, BLayout Base = BLayout::RowMajor, int ValidRows = Rows,
          int ValidCols = Cols, SLayout Box = SLayout::NoneBox, int Fractal = 512, PadValue Pad = PadValue::Null,
          CompactMode Compact = CompactMode::Null>
struct Tile {
    static_assert(Rows > 0 && Cols > 0 && ValidRows <= Rows && ValidCols <= Cols);
    static_assert(Box != SLayout::NoneBox ||
                  (Base == BLayout::RowMajor ? Cols : Rows) * sizeof(Element) % 32 == 0);
    static constexpr int dynamic = (ValidRows == DYNAMIC) + (ValidCols == DYNAMIC);
    using DType = Element;
    Tile() requires(dynamic == 0) {}
    explicit Tile(int) requires(dynamic == 1) {}
    Tile(int, int) requires(dynamic == 2) {}
};

template <int A, int B, int C, int D, int E>
struct Shape {
    static constexpr int dynamic = (A < 0) + (B < 0) + (C < 0) + (D < 0) + (E < 0);
    template <typename... Sizes>
    explicit Shape(Sizes...) requires(sizeof...(Sizes) == dynamic) {}
};

template <int A, int B, int C, int D, int E>
struct Stride {
    static constexpr int dynamic = (A < 0) + (B < 0) + (C < 0) + (D < 0) + (E < 0);
    template <typename... Sizes>
    explicit Stride(Sizes...) requires(sizeof...(Sizes) == dynamic) {}
};

template <typename Element, typename Extents, typename Steps, Layout Order = Layout::ND>
struct GlobalTensor {
    using DType = Element;
    GlobalTensor(Element*, const Extents&, const Steps&);
};

struct RecordEvent {};

template <typename A, typename B>
concept SameElement = sizeof(typename A::DType) == sizeof(typename B::DType);

template <typename T> void TASSIGN(T&, uint64_t);
template <typename D, typename S> requires SameElement<D, S> RecordEvent TLOAD(D&, S&);
template <typename D, typename S> requires SameElement<D, S> RecordEvent TSTORE(D&, S&);

#define FORM_2(op) template <typename D, typename S> RecordEvent op(D&, S&);
#define FORM_3(op) template <typename D, typename S, typename T> RecordEvent op(D&, S&, T&);
#define FORM_4(op) template <typename D, typename S, typename T, typename U> RecordEvent op(D&, S&, T&, U&);
#define ARG(op) FORM_3(op) FORM_4(op)

FORM_3(TROWSUM) FORM_3(TROWPROD) FORM_3(TROWMAX) FORM_3(TROWMIN)
ARG(TROWARGMAX) ARG(TROWARGMIN) ARG(TCOLARGMAX) ARG(TCOLARGMIN)
FORM_2(TCOLSUM) FORM_2(TCOLPROD) FORM_2(TCOLMAX) FORM_2(TCOLMIN)
template <typename D, typename S, typename T> RecordEvent TCOLSUM(D&, S&, T&, bool);
FORM_2(TROWEXPAND) FORM_2(TCOLEXPAND)
ARG(TROWEXPANDADD) ARG(TROWEXPANDSUB) ARG(TROWEXPANDMUL) ARG(TROWEXPANDDIV)
ARG(TROWEXPANDMAX) ARG(TROWEXPANDMIN) ARG(TROWEXPANDEXPDIF)
FORM_3(TCOLEXPANDADD) FORM_3(TCOLEXPANDSUB) FORM_3(TCOLEXPANDMUL) FORM_3(TCOLEXPANDDIV)
FORM_3(TCOLEXPANDMAX) FORM_3(TCOLEXPANDMIN) FORM_3(TCOLEXPANDEXPDIF)
} // namespace pto
