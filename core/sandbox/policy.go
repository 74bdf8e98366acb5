package sandbox

// Mode is how strictly a backend's sandbox is made.
type Mode string

// The modes.
const (
	// Auto puts in force what the kernel and this process's rights give; the others are reported.
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

// Policy is what the configuration says of a backend's process. The zero value is the mode Auto and
// gives nothing of what is declared.
type Policy struct {
	Mode Mode
	// AcceptDeclared gives what the backend declares.
	AcceptDeclared bool
	// Allowed is given in any case.
	Allowed Needs
	// User is UserOwn, UserRoot or the number of a user.
	User string
	// Memory bounds the memory in bytes; 0 for no limit. PIDs bounds the processes and threads, and CPUWeight is
	// the share of the processor; 0 for no limit and the usual share.
	Memory          int64
	PIDs, CPUWeight int
}

// Give returns what a process gets of its declared needs, and what is missing then.
func (p Policy) Give(declared Needs) (given, missing Needs) {
	given = p.Allowed.Join(Needs{})
	if p.AcceptDeclared {
		given = given.Join(declared)
	}
	given.Interfaces = declared.Interfaces
	return given, declared.Without(given)
}
