#!/bin/sh
# A model that returns NaN: the node that makes the first one, a look at its inputs, a repair, and what the repair changed.
# in the environment: PREFIX, the installed onnxc
set -eu
PATH=$PREFIX/bin:$PATH
cat >norm.onnxtxt <<'END'
<ir_version: 10, opset_import: ["": 21]>
norm (float[2, 4] x) => (float[2, 4] y)
<int64[1] last = {-1}>
{
  [mean] m = ReduceMean (x, last)
  [center] d = Sub (x, m)
  [square] s = Mul (d, d)
  [variance] v = ReduceMean (s, last)
  [deviation] e = Sqrt (v)
  [normalise] y = Div (d, e)
}
END
printf '1,-1,1,-1\n2,2,2,2\n' >x.csv
onnxc run norm.onnxtxt --input x=x.csv --stats | sed -n '/^first/,$p'
printf 'watch nan\ncontinue\nprint e\n' | onnxc debug norm.onnxtxt --input x=x.csv
sed 's/Sqrt (v)/Sqrt (f)/; s/<int64/<float small = {0.00001}, int64/; s/^  .deviation/  [epsilon] f = Add (v, small)\n&/' norm.onnxtxt >fixed.onnxtxt
onnxc diff norm.onnxtxt fixed.onnxtxt --only structure || echo "exit code $?"
onnxc run fixed.onnxtxt --input x=x.csv
