// Package clockshift shifts the wall clock of a sidecar that is built for tests, with the tag
// lockstep_steps. It owns the variable that says by how much, and is empty in a sidecar that ships.
package clockshift
