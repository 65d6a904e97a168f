//! A render worker: what the tests start as one. Started by hand, it answers requests on its standard streams, and is not confined.

use automation::template::worker::serve;

fn main() -> std::io::Result<()> {
    sandbox::worker::serve_if_asked(|requests, answers| serve(requests, answers));
    serve(std::io::stdin().lock(), std::io::stdout().lock())
}
