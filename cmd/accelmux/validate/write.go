package validate

import (
	"fmt"
	"io"

	"github.com/accelmux/accelmux/core/config"
)

// Err returns the errors as one error, nil if there are none.
func (r Result) Err() error {
	var all config.Errors
	for _, f := range r.Errors {
		all = append(all, r.located(f))
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func (r Result) located(f Finding) config.Error {
	return config.Error{File: r.File, Position: config.Position{Line: f.Line, Column: f.Column}, Field: f.Field, Message: f.Message}
}

// Write prints all but the errors for people.
func (r Result) Write(w io.Writer) {
	for _, f := range r.Warnings {
		at := r.located(f)
		fmt.Fprintf(w, "%swarning: %s\n", config.Error{File: at.File, Position: at.Position}, config.Error{Field: at.Field, Message: at.Message})
	}
	for _, u := range r.Unchecked {
		fmt.Fprintf(w, "not checked: the settings of %s, and the names of its attributes: %s\n", u.Command, u.Why)
	}
	if len(r.Errors) > 0 {
		return
	}
	for _, p := range r.Profiles {
		fmt.Fprintf(w, "%s: profile %s is valid (backends: %d, resources: %d)\n", r.File, p.Name, p.Backends, p.Resources)
	}
}
