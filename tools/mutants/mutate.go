package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// mutant is one change of the source.
type mutant struct {
	// id is from 1 on, in the package.
	id int
	at token.Position
	// was is the expression or statement, and is what stands in its place.
	was, is string
	outcome outcome
}

// edit replaces bytes of a file.
type edit struct {
	from, to int
	// side orders the edits of one offset: what ends there comes before what begins there.
	side int
	text string
}

const (
	ends = iota
	between
	begins
)

// mutator puts all mutants of a package into its source, each behind a switch that is off.
type mutator struct {
	fset    *token.FileSet
	info    *types.Info
	mutants []*mutant

	// The file in hand.
	src   []byte
	start token.Pos
	edits []edit
	// conditions are the operands that decide a branch.
	conditions map[ast.Expr]bool
}

var (
	// negated are the comparisons, with their opposites.
	negated = map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ,
		token.LEQ: token.GTR,
	}
	// shifted are those that count the boundary in, with those that do not.
	shifted = map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}
	// joined are the operators of conditions.
	joined = map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}
	// calculated are the operators of numbers, with what takes their place.
	calculated = map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
		token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN, token.INC: token.DEC, token.DEC: token.INC,
	}
	// functions are those of switches that calculate.
	functions = map[token.Token]string{
		token.ADD: "mutantAdd", token.SUB: "mutantSub", token.MUL: "mutantMul", token.QUO: "mutantQuo",
		token.REM: "mutantRem", token.LAND: "mutantAnd", token.LOR: "mutantOr",
	}
)

// file gives the source of a file with its mutants.
func (m *mutator) file(f *ast.File, src []byte) []byte {
	m.src, m.start, m.edits, m.conditions = src, f.FileStart, nil, map[ast.Expr]bool{}
	var leave []func()
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			leave[len(leave)-1]()
			leave = leave[:len(leave)-1]
			return true
		}
		leave = append(leave, m.visit(n))
		return true
	})
	slices.SortStableFunc(m.edits, func(a, b edit) int { return cmp.Or(a.from-b.from, a.side-b.side) })
	var out strings.Builder
	at := 0
	for _, e := range m.edits {
		out.Write(src[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(src[at:])
	return []byte(out.String())
}

// visit begins the mutants of a node, and gives what ends them after those inside it.
func (m *mutator) visit(n ast.Node) (leave func()) {
	leave = func() {}
	switch n := n.(type) {
	case *ast.IfStmt:
		m.decides(n.Cond)
	case *ast.ForStmt:
		m.decides(n.Cond)
	case *ast.IncDecStmt:
		x := m.text(n.X)
		return m.statement(n, m.add(n, x+calculated[n.Tok].String()), x+calculated[n.Tok].String())
	case *ast.AssignStmt:
		if is, ok := calculated[n.Tok]; ok && m.number(n.Lhs[0]) {
			changed := fmt.Sprintf("%s %s %s", m.text(n.Lhs[0]), is, m.text(n.Rhs[0]))
			return m.statement(n, m.add(n, changed), changed)
		}
	case *ast.UnaryExpr:
		switch {
		case n.Op == token.NOT && m.boolean(n):
			return m.condition(n, m.text(n.X))
		case n.Op == token.SUB && m.number(n):
			id := m.add(n, m.text(n.X))
			m.replace(n.OpPos, 1, begins, fmt.Sprintf("mutantNeg(%d, ", id))
			return func() { m.replace(n.End(), 0, ends, ")") }
		}
	case *ast.BinaryExpr:
		return m.binary(n)
	}
	if e, ok := n.(ast.Expr); ok && m.conditions[e] && m.boolean(e) {
		return m.condition(e, "!"+m.text(e))
	}
	return leave
}

// decides notes an operand that decides a branch. What has mutants of its own needs no other.
func (m *mutator) decides(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		m.decides(e.X)
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr, *ast.IndexExpr, *ast.StarExpr, *ast.TypeAssertExpr:
		m.conditions[e] = true
	}
}

// condition is a mutant that is true where a node is false.
func (m *mutator) condition(e ast.Expr, is string) (leave func()) {
	id := m.add(e, is)
	m.replace(e.Pos(), 0, begins, "(")
	return func() { m.replace(e.End(), 0, ends, fmt.Sprintf(" != mutantOn(%d))", id)) }
}

// statement is a mutant with another statement in the place of one.
func (m *mutator) statement(n ast.Stmt, id int, is string) (leave func()) {
	m.replace(n.Pos(), 0, begins, fmt.Sprintf("func() { if mutantOn(%d) { %s } else { ", id, is))
	return func() { m.replace(n.End(), 0, ends, " } }()") }
}

func (m *mutator) binary(n *ast.BinaryExpr) (leave func()) {
	leave = func() {}
	with := func(op token.Token) string { return fmt.Sprintf("%s %s %s", m.text(n.X), op, m.text(n.Y)) }
	switch {
	case m.info.Types[n].Value != nil: // a constant stays one
	case negated[n.Op] != 0:
		end := fmt.Sprintf(" != mutantOn(%d)", m.add(n, with(negated[n.Op])))
		if is := shifted[n.Op]; is != 0 {
			end += fmt.Sprintf(" != (mutantOn(%d) && %s)", m.add(n, with(is)), with(token.EQL))
		}
		m.replace(n.Pos(), 0, begins, "(")
		return func() { m.replace(n.End(), 0, ends, end+")") }
	case joined[n.Op] != 0:
		m.decides(n.X)
		m.decides(n.Y)
		if !m.boolean(n) {
			break
		}
		id := m.add(n, with(joined[n.Op]))
		m.replace(n.Pos(), 0, begins, fmt.Sprintf("%s(%d, ", functions[n.Op], id))
		m.replace(n.OpPos, 2, between, ", func() bool { return (")
		return func() { m.replace(n.End(), 0, ends, ") })") }
	case calculated[n.Op] != 0 && m.number(n):
		id := m.add(n, with(calculated[n.Op]))
		m.replace(n.Pos(), 0, begins, fmt.Sprintf("%s(%d, ", functions[n.Op], id))
		m.replace(n.OpPos, 1, between, ",")
		return func() { m.replace(n.End(), 0, ends, ")") }
	}
	return leave
}

// add makes a mutant, and gives its id.
func (m *mutator) add(n ast.Node, is string) int {
	id := len(m.mutants) + 1
	m.mutants = append(m.mutants, &mutant{id: id, at: m.fset.Position(n.Pos()), was: m.text(n), is: is})
	return id
}

func (m *mutator) replace(pos token.Pos, size, side int, text string) {
	from := int(pos - m.start)
	m.edits = append(m.edits, edit{from, from + size, side, text})
}

func (m *mutator) text(n ast.Node) string { return string(m.src[n.Pos()-m.start : n.End()-m.start]) }

// number reports whether an expression is a number that only running tells.
func (m *mutator) number(e ast.Expr) bool {
	is := m.info.Types[e]
	basic, ok := types.Unalias(is.Type).Underlying().(*types.Basic)
	return ok && is.Value == nil && basic.Info()&(types.IsInteger|types.IsFloat) != 0
}

// boolean reports whether an expression is a bool, of no type of its own, that only running tells.
func (m *mutator) boolean(e ast.Expr) bool {
	is := m.info.Types[e]
	basic, ok := types.Unalias(is.Type).(*types.Basic)
	return ok && is.Value == nil && basic.Info()&types.IsBoolean != 0
}

// switches is the source of what the mutants of a package call. %[1]s is its name, and %[2]d the number of its mutants.
const switches = `package %[1]s

import (
	mutantos "os"
	mutantstrconv "strconv"
	mutantatomic "sync/atomic"
)

var (
	mutantOfRun, _ = mutantstrconv.Atoi(mutantos.Getenv("MUTANT"))
	mutantsReached = mutantos.Getenv("MUTANTS_REACHED")
	mutantsSeen    [%[2]d + 1]mutantatomic.Bool
)

func mutantOn(id int) bool {
	if mutantsReached != "" && !mutantsSeen[id].Swap(true) {
		to, err := mutantos.OpenFile(mutantsReached, mutantos.O_APPEND|mutantos.O_CREATE|mutantos.O_WRONLY, 0o600)
		if err == nil {
			_, err = to.WriteString(mutantstrconv.Itoa(id) + "\n")
		}
		if err == nil {
			err = to.Close()
		}
		if err != nil {
			panic(err)
		}
	}
	return id == mutantOfRun
}

type mutantInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantNumber interface{ mutantInteger | ~float32 | ~float64 }

func mutantAnd(id int, a bool, b func() bool) bool {
	if mutantOn(id) {
		return a || b()
	}
	return a && b()
}

func mutantOr(id int, a bool, b func() bool) bool {
	if mutantOn(id) {
		return a && b()
	}
	return a || b()
}

func mutantAdd[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a - b
	}
	return a + b
}

func mutantSub[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a + b
	}
	return a - b
}

func mutantMul[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a / b
	}
	return a * b
}

func mutantQuo[T mutantNumber](id int, a, b T) T {
	if mutantOn(id) {
		return a * b
	}
	return a / b
}

func mutantRem[T mutantInteger](id int, a, b T) T {
	if mutantOn(id) {
		return a * b
	}
	return a %% b
}

func mutantNeg[T mutantNumber](id int, a T) T {
	if mutantOn(id) {
		return a
	}
	return -a
}
`
