// Command intruderbackend is a backend that has been taken over by an attacker. See package
// intruder.
package main

import "github.com/accelmux/accelmux/test/hostile/intruder"

func main() { intruder.Main() }
