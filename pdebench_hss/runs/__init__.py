"""config -> plan -> data -> trials -> store.

The types that carry a `Trial` from the plan to its record:

    Cell       plan         the trial, its dataset, and what to do about it: run, retry, cached, skip, keep
    Work       executors    a cell that is to run: the trial, its `Context`, its needs, the file of its output
    Context    trials       what it needs to run here but its result must not depend on: files, threads, peers
    Job        workers      any function to be called in a process of its own; of a trial, its two halves
    Event      workers      what happens to a job: `Started`, `Emitted`; then `Done`, `Failed`, `Crashed` or `TimedOut`
    Ending     executors    how one process of a trial ended: its record, and whether it only lost its peers
    Gang       executors    the endings of all peers of a trial, from which its one record follows
    Parcel     ray_node     one peer of a trial on its way to a node; back comes an `Answer`
    Attempt    ray_send     a trial that was sent to a cluster, with Ray's references to its peers

An executor yields `TrialStarted`, `TrialProgress` (with a `Progress`) and `TrialFinished` (with the `Record`), and the
runner writes the records.
"""
