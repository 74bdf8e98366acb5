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

// Policy is what the configuration says of a backend's process. The zero value is the mode Auto and
// gives nothing of what is declared.
type Policy struct {
	Mode Mode
	// AcceptDeclared gives what the backend declares.
	AcceptDeclared bool
	// Allowed is given in any case.
	Allowed Needs
}

// Give returns what a process gets of its declared needs, and what is missing then.
func (p Policy) Give(declared Needs) (given, missing Needs) {
	given = p.Allowed.Join(Needs{})
	if p.AcceptDeclared {
		given = given.Join(declared)
	}
	return given, declared.Without(given)
}
