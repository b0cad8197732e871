// Instead of the types of Node, which the program needs for nothing else.
declare const process: { argv: string[] };
