//! Models that the build script compiled, each with a typed interface.
use onnxc::View;

onnxc::include_model!(digits);
onnxc::include_model!(dense);

fn main() -> Result<(), onnxc::Error> {
    let mut image = [0.0f32; 64];
    for row in 1..7 {
        image[8 * row + 4] = 16.0;
    }
    let mut model = digits::Model::new()?;
    let out = model.run(&image)?;
    let best = (0..10).max_by(|&a, &b| out.logits[a].total_cmp(&out.logits[b])).unwrap();
    println!("a {best}");

    let x = [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0];
    let mut model = dense::Model::new()?;
    let out = model.run(View::new(&[2, 4], &x)?)?;
    println!("{:?}: {:?}", out.y.dims(), out.y.elements());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    onnxc::include_model!(strings);
    onnxc::include_model!(positive);
    onnxc::include_model!(slide);

    #[test]
    fn sizes_may_change() {
        let mut model = dense::Model::new().unwrap();
        for n in [3i64, 0, 100, 1] {
            let x = vec![1.0f32; 4 * n as usize];
            let out = model.run(View::new(&[n, 4], &x).unwrap()).unwrap();
            assert_eq!(out.y.dims(), [n, 3]);
            assert!(out.y.elements().chunks(3).all(|row| row == [2.25, 2.75, 3.25]));
        }
        let wrong = [0.0f32; 5];
        let error = model.run(View::new(&[1, 5], &wrong).unwrap()).err().unwrap();
        assert_eq!(error.status(), Some(onnxc::Status::BAD_DIM));
    }

    #[test]
    fn outputs_grow() {
        let mut model = positive::Model::new().unwrap();
        for n in [2usize, 50, 10] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let out = model.run(View::new(&[n as i64], &x).unwrap()).unwrap();
            assert_eq!(out.y.elements(), &x[1..]);
        }
    }

    #[test]
    fn strings_come_and_go() {
        let mut model = strings::Model::new().unwrap();
        for _ in 0..2 {
            let out = model.run(&["on", ""], &["nxc", "ü"]).unwrap();
            assert_eq!(out.c.strings(), ["onnxc", "ü"]);
        }
    }

    #[test]
    fn states_are_updated() {
        let mut model = slide::Model::new().unwrap();
        let mut past = [0.0f32; 3];
        for i in 1..=3 {
            let out = model.run(&[i as f32], &mut past).unwrap();
            assert_eq!(out.mean.elements().len(), 1);
        }
        assert_eq!(past, [1.0, 2.0, 3.0]);
    }
}
