"""How many workers can one driver keep busy? Measured with one and two, simulated with up to ten thousand.

    python benchmarks/scaling.py [--only PART,PART] [--quick] [--page FILE] [--folder DIR] [--out DIR]

    real       trials/s with one and with two Ray actors: the same trials, in turns
    ray        what Ray costs: a call, an actor's start and memory, the driver's sockets, asking for the nodes
    storage    what the driver does for a trial, piece by piece: on a journal file and on PostgreSQL
    tracking   what MLflow's sender does for a trial: into the embedded database and into a server
    simulated  1 to 10,000 workers, trials of 0.1 to 100 s; needs what `ray` measured

Real trials are stand-ins of known length, because a sampler chooses parameters, and so lengths, differently each time:
`sleep` leaves the processor to the driver, `burn` takes that much processor time, and `train` is a fixed number of real
trainings, so that it also feels what two trainings take from each other (caches, memory). Two workers and the driver
share two cores here; on a cluster the driver has its own.

Simulated studies run the real driver, proposer, ledger and journal, and the real bookkeeping of the Ray backend over
actors that only pretend, in simulated time: what the driver does takes as much as it needs of the processor, and
whenever it waits, the clock jumps; waits for the disk, one sync a second, are left out. Ray's share of a call and of
asking for the nodes, measured before, is added to the clock. The same is done with workflows.backends.simulated, which
has no bookkeeping of actors. The first trial of every worker is cut short at random, so that ends do not come in waves:
what is measured is how it goes on, from all workers filled to the last trial handed out. Nothing of networks, failing
nodes and Ray's own processes is simulated.

Takes about eight minutes on two cores. PostgreSQL is left out where it is not installed.
"""

from pathlib import Path

from frame import ROOT, Part, add_quick, asked, options, run, show
from scaling_costs import storage_figures, storage_part, tracking_figures, tracking_part
from scaling_picture import draw, fill
from scaling_real import ray_figures, ray_part, real_figures, real_part
from scaling_simulated import simulated_figures, simulated_part
from scaling_study import QUICK, Plan

PARTS = {
    "real": Part(real_part, real_figures),
    "ray": Part(ray_part, ray_figures),
    "storage": Part(storage_part, storage_figures),
    "tracking": Part(tracking_part, tracking_figures),
    "simulated": Part(simulated_part, simulated_figures, needs=("ray",)),
}


def main() -> None:
    parser = options("Workers that one driver keeps busy: one, two, and simulated ones.", PARTS)
    add_quick(parser)
    parser.add_argument("--page", type=Path, help="a Markdown file with the marks <!-- scaling figures --> to fill")
    arguments, names = asked(parser, PARTS)
    file = arguments.out / f"scaling{'-quick' if arguments.quick else ''}.json"
    plan = QUICK if arguments.quick else Plan()
    results = run(PARTS, names, plan, file, arguments.folder, ("optuna", "ray", "mlflow"))
    show({name: results[name] for name in names})
    if not arguments.quick and {"real", "simulated", "tracking"} <= results.keys():
        draw(results, ROOT / "docs" / "scaling.svg")
    if arguments.page:
        fill(arguments.page, results)


if __name__ == "__main__":
    main()
