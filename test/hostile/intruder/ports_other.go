//go:build !amd64

package intruder

import "errors"

func ioPorts() error { return errors.New("the machine has none") }
