// Package arguments refuses wrong arguments and flags of the commands, with what would be right.
package arguments

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/accelmux/accelmux/core/suggestion"
)

// FlagError adds to an error of flag parsing the closest known flag and where the flags are
// listed.
func FlagError(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = suggestion.DidYouMean("--"+unknown.GetSpecifiedName(), names)
	}
	return fmt.Errorf("%w%s; `%s --help` lists the flags", err, hint, cmd.CommandPath())
}

// None refuses arguments: the command has flags only.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q; `%[1]s --help` lists its flags", cmd.CommandPath(), args[0])
	}
	return nil
}

// OneFile requires exactly one argument, a file.
func OneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes one file, got %d: `%s`", cmd.CommandPath(), len(args), cmd.UseLine())
	}
	return nil
}

// AtLeast requires n arguments or more.
func AtLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("an argument is missing: `%s`", cmd.UseLine())
		}
		return nil
	}
}

// Exactly requires n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("unexpected argument %q: `%s`", args[n], cmd.UseLine())
		}
		return AtLeast(n)(cmd, args)
	}
}
