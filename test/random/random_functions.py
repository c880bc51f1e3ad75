"""Functions of a model: parts of a random graph become functions, some of their attributes parameters, and functions call others."""
from onnx import AttributeProto, helper

from random_patterns import every_node

DOMAIN = "ours"
PASSED = (AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRING)


def names_read(node):
    """Values that a node or its bodies read from around it, and some of the bodies' own."""
    return [n for inner in every_node([node]) for n in inner.input if n] + [
        o.name for inner in every_node([node]) for a in inner.attribute if a.HasField("g") for o in a.g.output]


def parameters(nodes, dice, counter):
    """Turns attributes of the nodes into parameters: {name: (attribute, whether it has a default)}."""
    given = {}
    for node in nodes:
        for a in node.attribute:
            if a.type not in PASSED or a.ref_attr_name or dice.random() < 0.5:
                continue
            name = f"p{counter[0]}"
            counter[0] += 1
            value = AttributeProto()
            value.CopyFrom(a)
            value.name = name
            given[name] = (value, dice.random() < 0.3)
            name_of, kind = a.name, a.type
            a.Clear()
            a.name, a.type, a.ref_attr_name = name_of, kind, name
    return given


def part(nodes, at, count, kept, opsets, dice, counter):
    """nodes[at:at + count] as a function, and the call that takes their place."""
    inside = nodes[at:at + count]
    made = [o for n in inside for o in n.output if o]
    inputs = list(dict.fromkeys(n for node in inside for n in names_read(node) if n not in made and n in kept["known"]))
    later = {n for node in nodes[at + count:] for n in names_read(node)} | kept["outputs"]
    outputs = [o for o in made if o in later] or made[-1:]
    name = f"F{counter[0]}"
    counter[0] += 1
    given = parameters(inside, dice, counter)
    inner = [helper.make_opsetid(o.domain, o.version) for o in opsets] + [helper.make_opsetid(DOMAIN, 1)]
    function = helper.make_function(DOMAIN, name, inputs, outputs, inside, inner, attributes=[n for n, (_, d) in given.items() if not d],
                                    attribute_protos=[a for a, d in given.values() if d])
    call = helper.make_node(name, inputs, outputs, f"call{counter[0]}", domain=DOMAIN)
    call.attribute.extend(a for a, d in given.values() if not d)
    return function, call


def outline(graph, opsets, dice):
    """Replaces a few runs of nodes by calls, and some runs with calls in them again."""
    functions, counter = [], [0]
    for _ in range(dice.randint(1, 4)):
        nodes = list(graph.node)
        if len(nodes) < 2:
            break
        at = dice.randrange(len(nodes) - 1)
        known = {o for n in nodes for o in n.output} | {i.name for i in graph.input} | {c.name for c in graph.initializer}
        kept = {"outputs": {o.name for o in graph.output}, "known": known}
        function, call = part(nodes, at, dice.randint(1, min(8, len(nodes) - at)), kept, opsets, dice, counter)
        functions.append(function)
        del graph.node[:]
        graph.node.extend([*nodes[:at], call, *nodes[at + len(function.node):]])
    if functions:
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    return functions
