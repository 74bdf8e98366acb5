package sandbox

// Mode decides what happens if a measure of a sandbox cannot be in force.
type Mode string

// The modes.
const (
	// Auto puts in force what the kernel and this process's rights allow, and reports the others.
	Auto Mode = "auto"
	// Required refuses to start a program if a measure cannot be in force.
	Required Mode = "required"
	// Off makes no sandbox.
	Off Mode = "off"
)

// The users that are no numbers.
const (
	// UserOwn, the default, is one of the backend's own.
	UserOwn = "auto"
	// UserRoot is the agent's user.
	UserRoot = "root"
)

// Policy is the configuration of a backend's process. The zero value has the mode Auto and gives nothing of
// what the manifest lists.
type Policy struct {
	Mode Mode
	// AcceptDeclared gives what the manifest lists.
	AcceptDeclared bool
	// Allowed is given in any case.
	Allowed Needs
	// User is UserOwn, UserRoot or the number of a user.
	User string
	// Memory bounds the memory, in bytes, and PIDs the processes and threads; 0 for no limit. CPUWeight is the
	// share of the processor's time (cpu.weight); 0 for the kernel's default.
	Memory          int64
	PIDs, CPUWeight int
}

// Give returns what a process gets, and what of its manifest's needs it does not get.
func (p Policy) Give(declared Needs) (given, missing Needs) {
	given = p.Allowed.Join(Needs{Blocks: p.Allowed.Open})
	if p.AcceptDeclared {
		given = given.Join(declared)
	}
	return given, declared.Without(given)
}
