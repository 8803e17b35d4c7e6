// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/table"
)

// Limits is the room that there is.
type Limits struct {
	Lines   int
	Columns int  // 60 or more make sense
	Wrap    bool // sentences that are longer than a line are broken; otherwise whoever shows them does that
}

// Style is how a part of a line looks.
type Style uint8

// The styles.
const (
	Usual Style = iota
	Head        // stands over what follows
	Bad         // something is wrong
)

// Span is a part of a line.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of a screen, without its end.
type Line []Span

// Text is a line without styles.
func (l Line) Text() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Render is a page as lines, at most as many as there may be: rows that don't fit are counted.
func Render(p *Page, room Limits) []Line {
	var lines []Line
	for _, note := range p.Notes {
		lines = append(lines, room.Sentence(note, Usual)...)
	}
	if p.Alarm != "" {
		lines = append(lines, room.Sentence(p.Alarm, Bad)...)
	}
	var remarks []Line
	for _, r := range p.Remarks {
		remarks = append(remarks, room.Sentence(r, Usual)...)
	}
	blocks := append([]Block{p.Figures}, p.Blocks...)
	fit(blocks, room.Lines-len(lines)-len(remarks))
	for i := range blocks {
		if len(blocks[i].Rows) > 0 {
			if len(lines) > 0 {
				lines = append(lines, nil)
			}
			lines = append(lines, blocks[i].lines(room.Columns)...)
		}
		if i == 0 {
			lines = append(lines, remarks...)
		}
	}
	return lines[:min(len(lines), max(room.Lines, 0))]
}

// fit takes rows out of blocks until they fit into so many lines: of the longest one at a time, and of the last of
// those that are equally long. When all have a row, the last block goes; the first loses no rows.
func fit(blocks []Block, lines int) {
	for {
		sum, longest, last := 0, 0, 0 // 0: none but the first
		for i := range blocks {
			rows := len(blocks[i].Rows)
			sum += blocks[i].height()
			if i > 0 && rows > 1 && (longest == 0 || rows >= len(blocks[longest].Rows)) {
				longest = i
			}
			if rows > 0 {
				last = i
			}
		}
		switch {
		case sum <= lines || last == 0:
			return
		case longest > 0:
			b := &blocks[longest]
			b.Rows, b.More = b.Rows[:len(b.Rows)-1], b.More+1
		default:
			blocks[last].Rows = nil
		}
	}
}

// height is how many lines a block takes, with the empty one before it.
func (b *Block) height() int {
	switch {
	case len(b.Rows) == 0:
		return 0
	case b.More > 0:
		return 3 + len(b.Rows)
	}
	return 2 + len(b.Rows)
}

// gap is between two columns.
const gap = 2

// nameLeast is how far names are shortened before columns are left out.
const nameLeast = 24

// lines is the block as text.
func (b *Block) lines(columns int) []Line {
	shown, width := b.columns()
	rest := 0
	for _, w := range width[1:] {
		rest += gap + w
	}
	for len(width) > 2 && min(width[0], nameLeast)+rest > columns {
		rest -= gap + width[len(width)-1]
		width = width[:len(width)-1]
	}
	width[0] = min(width[0], max(columns-rest, 1))

	lines := []Line{b.head(shown, width)}
	for _, row := range b.Rows {
		line := Line{{pad(Shorten(row.Name, width[0]), width[0], false), Usual}}
		for k, w := range width[1:] {
			if i := shown[k+1] - 1; i < len(row.Cells) {
				style := Usual
				if row.Cells[i].Bad {
					style = Bad
				}
				line = append(line, Span{strings.Repeat(" ", gap), Usual},
					Span{pad(Shorten(row.Cells[i].String(), columns), w, true), style})
			}
		}
		lines = append(lines, line.trimmed())
	}
	if b.More > 0 {
		text := "  … and " + table.Count(int64(b.More)) + " more"
		if b.Table != "" {
			text += ": --tables " + b.Table
		}
		lines = append(lines, Line{{text, Usual}})
	}
	return lines
}

// columns are those in which something exists, and their widths.
func (b *Block) columns() (shown, width []int) {
	for i, h := range b.Heads {
		most, some := utf8.RuneCountInString(h), i == 0
		for _, row := range b.Rows {
			text := row.Name
			if i > 0 && i > len(row.Cells) {
				continue
			} else if i > 0 {
				text = row.Cells[i-1].String()
				some = some || text != None && text != ""
			}
			most = max(most, utf8.RuneCountInString(text))
		}
		if some {
			shown, width = append(shown, i), append(width, most)
		}
	}
	return shown, width
}

func (b *Block) head(shown, width []int) Line {
	var text strings.Builder
	for i, w := range width {
		if i > 0 {
			text.WriteString(strings.Repeat(" ", gap))
		}
		text.WriteString(pad(Shorten(b.Heads[shown[i]], w), w, i > 0))
	}
	return Line{{strings.TrimRight(text.String(), " "), Head}}
}

// trimmed is the line without spaces at its end.
func (l Line) trimmed() Line {
	for len(l) > 0 {
		end := &l[len(l)-1]
		if end.Text = strings.TrimRight(end.Text, " "); end.Text != "" {
			break
		}
		l = l[:len(l)-1]
	}
	return l
}

func pad(text string, width int, right bool) string {
	space := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
	if right {
		return space + text
	}
	return text + space
}

// Shorten is a text in at most so many columns, with "…" for its end where it is longer.
func Shorten(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:max(columns-1, 0)]) + "…"
}

// sentenceLines is how many lines a sentence may take; what is longer ends with "…".
const sentenceLines = 4

// words are the words of a text; of one that is longer than a line, such as a list of names, each piece that fits, up
// to a comma.
func words(text string, columns int) (all []string) {
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(word) > columns {
			at := 0
			for i, r := range word {
				if r == ',' && i > 0 && (at == 0 || utf8.RuneCountInString(word[:i+1]) <= columns) {
					at = i + 1
				}
			}
			if at == 0 || at == len(word) {
				break
			}
			all, word = append(all, word[:at]), word[at:]
		}
		all = append(all, word)
	}
	return all
}

// Sentence is a text in lines, which are broken between words where the room says so. Those after the first are
// indented.
func (room Limits) Sentence(text string, style Style) []Line {
	text = strings.ReplaceAll(text, "\n", " ")
	if !room.Wrap {
		return []Line{{{text, style}}}
	}
	var lines []Line
	rest := words(text, room.Columns-2)
	for len(rest) > 0 {
		line := "  "
		if len(lines) == 0 {
			line = ""
		}
		line += rest[0]
		rest = rest[1:]
		for len(rest) > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(rest[0]) <= room.Columns {
			line += " " + rest[0]
			rest = rest[1:]
		}
		if len(lines) == sentenceLines-1 && len(rest) > 0 {
			return append(lines, Line{{Shorten(line, room.Columns-2) + " …", style}})
		}
		lines = append(lines, Line{{Shorten(line, room.Columns), style}})
	}
	return lines
}
